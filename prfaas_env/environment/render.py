"""The state of a run as a panel of text, and that panel as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.simulator.signals import SIGNAL

if TYPE_CHECKING:
    from prfaas_env.environment.core import ControlLoop

__all__ = ["panel", "picture"]

_BAR, _WIDTH, _SCALE = 20, 78, 2


def _bar(share: float) -> str:
    full = round(_BAR * min(max(share, 0.0), 1.0))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {100 * share:3.0f} %"


def _tokens(tokens: float) -> str:
    return "all local" if math.isinf(tokens) else f"{tokens:,.0f} tokens"


def panel(loop: ControlLoop) -> str:
    """Clock, knobs, pools, link and decode after the last control interval, in letters that a bitmap font has."""
    timeline = loop.timeline
    head = f"{loop.scenario.name} on {loop.scenario.deployment.name}"
    if len(timeline) == 0:
        return f"{head}\n(no interval yet)"
    now = {name: float(timeline[-1, index]) for name, index in SIGNAL.items()}
    arrivals = now["arrived"] / now["interval_s"]
    ttft = f"{now['ttft_sum_s'] / now['first_tokens']:.2f} s" if now["first_tokens"] else "-"
    sent_share = now["link_sent_bytes"] / now["link_capacity_bytes"] if now["link_capacity_bytes"] else 0.0
    slots = now["decode_nodes"] * loop.scenario.deployment.local.profile.decode.slots
    control, advice = loop.control, loop.advice
    law = f"price {control.price_s:+.2f} s" if control.law == "price" else f"t {_tokens(control.threshold_tokens)}"
    load = f"{arrivals / advice.lambda_max_rps:.2f}" if advice.lambda_max_rps else "-"
    rows = [
        f"{head}   {now['time_s']:,.0f} / {loop.scenario.horizon_s:,.0f} s",
        f"arrivals  {arrivals:.2f} /s   load {load}   waiting {now['waiting']:.0f}   TTFT {ttft}",
        f"routing   {law}   (advised t* {_tokens(advice.threshold_tokens)})",
        f"split     N_p {now['prefill_nodes']:.0f}   target {now['target_prefill_nodes']:.0f}"
        f"   advised {advice.n_prefill}   N_d {now['decode_nodes']:.0f}   converting {now['converting_nodes']:.0f}",
        f"remote    {_bar(now['remote_busy_share'])}   queue {now['remote_queue']:4.0f}"
        f"   wait {now['remote_expected_wait_s']:6.1f} s",
        f"local     {_bar(now['local_busy_share'])}   queue {now['local_queue']:4.0f}"
        f"   wait {now['local_expected_wait_s']:6.1f} s",
        f"link      {_bar(sent_share)}   backlog {now['link_backlog_bytes'] / 1e9:.2f} GB"
        f"   capacity {now['link_capacity_gbps']:.0f} Gbps",
        f"decode    {_bar(now['decode_busy_share'])}   queue {now['decode_queue']:4.0f}"
        f"   active {now['decode_active']:.0f} / {slots:.0f}",
    ]
    return "\n".join(rows)


def picture(text: str) -> np.ndarray:
    """The text as light letters on dark, uint8 (height, width, 3), of one size however long the lines.

    Raises :class:`ConfigError` if Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise ConfigError("render_mode 'rgb_array' needs Pillow: pip install pillow") from None
    font = ImageFont.load_default_imagefont()
    _, _, letter, height = font.getbbox("M")
    size = ((_WIDTH + 2) * letter, 10 * (height + 2))
    image = Image.new("RGB", size, (24, 26, 31))
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(text.splitlines()):
        draw.text((letter, (row + 1) * (height + 2)), line[:_WIDTH], font=font, fill=(222, 226, 230))
    return np.asarray(image.resize((size[0] * _SCALE, size[1] * _SCALE), Image.Resampling.NEAREST))
