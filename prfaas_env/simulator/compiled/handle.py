"""How a kernel reaches many arrays: by one pointer.

A run is some thirty arrays. Handed from function to function as such, they would cost more than the work; so Python
writes their addresses and shapes into a *table* of whole numbers, and kernels pass a pointer to it. To kernel code the
handle looks like the named tuple itself: ``sim.ring[k]`` is the same array.

:class:`HandleKind` makes both sides for a named tuple of arrays: ``table(arrays)`` writes the table (keep the arrays
alive as long as it is used). Inside a kernel, ``of(pointer)`` is the handle for a table, and ``at(tables, row)`` that
for one row of a 2-D array of tables: a batch of runs is a batch of rows, whatever the sizes of their arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic, models, register_model
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

__all__ = ["Field", "HandleKind", "call", "pointer_at"]

WORDS = 3  # of the table for one array: its address and two lengths


class Field(NamedTuple):
    """The type of one array: C-contiguous, of one or two dimensions."""

    name: str
    dtype: np.dtype
    ndim: int


class HandleKind:
    """A kind of handle: for named tuples whose arrays are ``fields``, in this order."""

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.at: Callable[[np.ndarray, int], Any]
        self.of: Callable[[Any], Any]
        self.at, self.of = _make_type(name, self.fields)

    def table(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Addresses and shapes, int64 (1, fields × 3). Raises ``TypeError`` if an array is not as its field says."""
        table = np.ones(len(self.fields) * WORDS, dtype=np.int64)
        for i, (field, array) in enumerate(zip(self.fields, arrays, strict=True)):
            if not array.flags.c_contiguous or array.dtype != field.dtype or array.ndim != field.ndim:
                raise TypeError(f"{field.name}: expected {field.dtype} in {field.ndim} dimensions, got {array.dtype}")
            table[i * WORDS] = array.ctypes.data
            table[i * WORDS + 1 : i * WORDS + 1 + array.ndim] = array.shape
        return table[None, :]


def _row_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """LLVM for the address of row ``args[1]`` of the 2-D int64 array ``args[0]``."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    shape = cgutils.unpack_tuple(builder, array.shape, 2)
    start = builder.mul(context.cast(builder, args[1], signature.args[1], types.intp), shape[1])
    return builder.gep(array.data, [start])


def _make_type(name: str, fields: tuple[Field, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    index = {field.name: i for i, field in enumerate(fields)}
    arrays = {field.name: types.Array(from_dtype(field.dtype), field.ndim, "C") for field in fields}
    word = ir.IntType(64)
    handle_class = type(name, (types.Type,), {})
    handle_type = handle_class(name=name)

    @register_model(handle_class)
    class Model(models.PrimitiveModel):
        def __init__(self, manager: Any, fe_type: types.Type) -> None:
            super().__init__(manager, fe_type, word.as_pointer())

    @infer_getattr
    class Attribute(AttributeTemplate):
        key = handle_class

        def generic_resolve(self, typ: types.Type, attr: str) -> types.Type | None:  # noqa: ARG002
            return arrays.get(attr)

    @lower_getattr_generic(handle_class)
    def lower_attribute(context: Any, builder: Any, typ: Any, handle: Any, attr: str) -> Any:  # noqa: ARG001
        array_type = arrays[attr]

        def load(k: int) -> Any:
            value = builder.load(builder.gep(handle, [ir.Constant(word, index[attr] * WORDS + k)]))
            # The table does not change while a kernel runs: LLVM may load once.
            value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value

        itemsize = ir.Constant(word, fields[index[attr]].dtype.itemsize)
        shape = [load(1 + d) for d in range(array_type.ndim)]
        strides = [itemsize] if array_type.ndim == 1 else [builder.mul(shape[-1], itemsize), itemsize]
        array = context.make_array(array_type)(context, builder)
        data = builder.inttoptr(load(0), context.get_data_type(array_type.dtype).as_pointer())
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
        return array._getvalue()

    @intrinsic
    def at(typingctx: Any, tables: Any, row: Any) -> Any:  # noqa: ARG001
        return handle_type(tables, row), _row_pointer

    @intrinsic
    def of(typingctx: Any, pointer: Any) -> Any:  # noqa: ARG001
        return handle_type(pointer), lambda context, builder, signature, args: args[0]

    return at, of


@intrinsic
def pointer_at(typingctx: Any, tables: Any, row: Any) -> Any:  # noqa: ARG001
    """A pointer to one row of a 2-D array of tables."""

    return types.CPointer(types.int64)(tables, row), _row_pointer


@intrinsic
def call(
    typingctx: Any,  # noqa: ARG001
    address: Any,
    pointer: Any,
    operation: Any,
    i: Any,
    j: Any,
    k: Any,
    x: Any,
    y: Any,
) -> Any:
    """Call a function with the C signature of ``loop.operate`` by its address."""
    integer, real = types.int64, types.float64
    parameters = (pointer, integer, integer, integer, integer, real, real)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [context.get_value_type(kind) for kind in parameters]
        function = ir.FunctionType(ir.IntType(64), kinds)
        at = builder.inttoptr(args[0], function.as_pointer())
        values = [
            context.cast(builder, value, given, wanted)
            for value, given, wanted in zip(args[1:], signature.args[1:], parameters, strict=True)
        ]
        return builder.call(at, values)

    return integer(address, pointer, operation, i, j, k, x, y), codegen
