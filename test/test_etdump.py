"""The ETDump that we write, opened by ExecuTorch's own Inspector."""
import os
import struct
import subprocess

import pytest
from conftest import SIXFOLD


def test_inspector_opens_our_etdump(tmp_path):
    devtools = pytest.importorskip("executorch.devtools")
    dump, buffer = tmp_path / "run.etdp", tmp_path / "debug.bin"
    command = [SIXFOLD.parent / "sixfold_test", "--gtest_filter=EtDump.*"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SIXFOLD_ETDUMP": str(dump)})
    buffer.write_bytes(struct.pack("<2f", 1.5, 2.5) + bytes(56))
    inspector = devtools.Inspector(etdump_path=str(dump), debug_buffer_path=str(buffer))
    blocks = {block.name: block for block in inspector.event_blocks}
    assert set(blocks) == {"Default", "Execute"}
    events = {event.name: event for event in blocks["Execute"].events}
    assert events["native_call_add.out"].perf_data.raw == [2.0, 2.0]  # two runs, ms
    assert events["native_call_add.out"].debug_data[0].tolist() == [1.5, 2.5]
    assert events["inner (us)"].is_delegated_op
    assert events["Method::execute"].perf_data.raw == [4.1, 4.1]
    assert blocks["Execute"].run_output[0].tolist() == [1.5, 2.5]
