"""How a kernel reaches the arrays of a run: by one pointer.

A :class:`~prfaas_env.simulator.compiled.state.Sim` is some thirty arrays. Handed from function to function as such, they
would cost more than the work; so Python writes their addresses and shapes into a *table* of whole numbers, and kernels
pass a pointer to it. To kernel code the handle looks like the ``Sim`` itself: ``sim.ring[k]`` is the same array.

``address_table(sim)`` makes the table (keep ``sim`` alive as long as it is used); ``as_sim(tables, row)`` is the handle
for one row of a 2-D array of tables, so a batch of runs is a batch of rows, whatever the sizes of their arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic, models, register_model
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from prfaas_env.simulator.compiled.state import FIELDS, Sim

__all__ = ["address_table", "as_sim"]

WORDS = 3  # address and two lengths of an array


def address_table(sim: Sim) -> np.ndarray:
    """Addresses and shapes of all arrays, shape (1, fields × 3), int64."""
    table = np.ones(len(FIELDS) * WORDS, dtype=np.int64)
    for i, array in enumerate(sim):
        assert array.flags.c_contiguous and array.dtype == FIELDS[i].dtype and array.ndim == FIELDS[i].ndim, FIELDS[i]
        table[i * WORDS] = array.ctypes.data
        table[i * WORDS + 1 : i * WORDS + 1 + array.ndim] = array.shape
    return table[None, :]


class SimHandle(types.Type):
    def __init__(self) -> None:
        super().__init__(name="SimHandle")


HANDLE = SimHandle()
INDEX = {field.name: i for i, field in enumerate(FIELDS)}
ARRAYS = {f.name: types.Array(from_dtype(f.dtype), f.ndim, "C") for f in FIELDS}


@register_model(SimHandle)
class _HandleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: types.Type) -> None:
        super().__init__(manager, fe_type, ir.IntType(64).as_pointer())


@infer_getattr
class _HandleAttribute(AttributeTemplate):
    key = SimHandle

    def generic_resolve(self, typ: types.Type, attr: str) -> types.Type | None:  # noqa: ARG002
        return ARRAYS.get(attr)


@lower_getattr_generic(SimHandle)
def _lower_attribute(context: Any, builder: Any, typ: Any, handle: Any, attr: str) -> Any:  # noqa: ARG001
    array_type = ARRAYS[attr]
    word = ir.IntType(64)

    def load(k: int) -> Any:
        value = builder.load(builder.gep(handle, [ir.Constant(word, INDEX[attr] * WORDS + k)]))
        # The table does not change while a kernel runs: LLVM may load once.
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    itemsize = ir.Constant(word, FIELDS[INDEX[attr]].dtype.itemsize)
    shape = [load(1 + d) for d in range(array_type.ndim)]
    strides = [itemsize] if array_type.ndim == 1 else [builder.mul(shape[-1], itemsize), itemsize]
    if array_type.ndim == 3:
        raise TypeError(attr)
    array = context.make_array(array_type)(context, builder)
    data = builder.inttoptr(load(0), context.get_data_type(array_type.dtype).as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


@intrinsic
def as_sim(typingctx: Any, tables: Any, row: Any) -> Any:  # noqa: ARG001
    """The handle of one run: ``tables`` is int64 (runs, words), ``row`` which of them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        shape = cgutils.unpack_tuple(builder, array.shape, 2)
        start = builder.mul(context.cast(builder, args[1], signature.args[1], types.intp), shape[1])
        return builder.gep(array.data, [start])

    return HANDLE(tables, row), codegen
