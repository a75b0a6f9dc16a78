"""Pairs on the page whose sides run on different devices."""

from __future__ import annotations

import pytest
from served_page import Watched, serving

import sweepdb

pytestmark = pytest.mark.survival
ASKED = {"num_devices": 1, "tp_sizes": 1, "input_length": 3500, "output_length": 300, "batch_range": (1, 8)}


def test_each_side_has_a_device_of_its_own(chromium, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    for device, modes in (("l40s", "prefill"), ("h100_sxm", "prefill,decode")):
        sweepdb.evaluate("Qwen/Qwen3-0.6B", device=device, mode=modes, store=url, **ASKED)
    # The page is closed before its server: what it still asks would be refused, and stand in its console.
    with serving(url) as address, chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        watched = Watched(context.new_page(), address)
        watched.open("/pd?num_devices=4&ttft_limit=2000&prefill_device=l40s&decode_device=h100_sxm")
        page = watched.page
        assert page.locator("#prefill_device").input_value() == "l40s"
        pairs = page.locator("section[data-report='pd-ratio']")
        line = pairs.locator("code").first.inner_text()
        assert "--prefill-device l40s --decode-device h100_sxm" in line
        with sweepdb.open(url) as store:
            rows = store.pd_ratio(
                num_devices=4, ttft_limit=2000, prefill_device="l40s", decode_device="h100_sxm"
            ).dicts()
        assert {(row["prefill_device"], row["decode_device"]) for row in rows} == {("l40s", "h100_sxm")}
        assert pairs.locator("tbody tr").count() == min(len(rows), 25)
        before = watched.seq()
        page.locator("#prefill_device").fill("h100_sxm")
        page.locator("#prefill_device").press("Enter")
        watched.drawn(after=before)
        assert "--prefill-device h100_sxm --decode-device h100_sxm" in pairs.locator("code").first.inner_text()
    assert watched.wrong == []
