"""Reading kernel tables: parquet and CSV, kinds told by columns, and errors that name the file."""

import duckdb
import numpy as np
import pytest

from evaluator.calibration.forms.base import DeviceFigures
from evaluator.calibration.kernels import kernel_sets, sent_by_expert_exchange, sharing_of
from evaluator.calibration.tables import COLUMNS, KernelTable, read_tables, write_tables
from store.errors import InputError

FIGURES = DeviceFigures(
    matrix_flops_per_s=(("bf16", 100e12), ("fp8", 200e12)),
    memory_bytes_per_s=1e12,
    link_bytes_per_s=100e9,
    compute_units=100,
)


def write_csv(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_file_is_told_by_its_columns(tmp_path):
    path = write_csv(
        tmp_path / "anything.csv", "m,n,k,dtype,latency_us,note\n1,64,32,bfloat16,2.5,x\n2,64,32,fp8,3.5,y\n"
    )
    (table,) = read_tables(path)
    assert table.kind == "gemm"
    assert table.numbers["m"].tolist() == [1.0, 2.0]
    assert table.words["dtype"].tolist() == ["bfloat16", "fp8"]
    assert table.latency_s.tolist() == pytest.approx([2.5e-6, 3.5e-6])
    names = [rows.name for rows in kernel_sets([table], FIGURES)]
    assert names == ["gemm.bf16", "gemm.fp8"]


def test_parquet_and_csv_read_the_same(tmp_path):
    path = write_csv(tmp_path / "comm.csv", "op,ngpus,message_bytes,latency_us\nnccl_all_reduce,8,1024,9.5\n")
    duckdb.connect().execute(f"copy (select * from '{path}') to '{tmp_path / 'comm.parquet'}' (format parquet)")
    first, second = (read_tables(tmp_path / name)[0] for name in ("comm.csv", "comm.parquet"))
    assert first.numbers["message_bytes"] == second.numbers["message_bytes"]
    assert first.latency_s == second.latency_s
    assert first.kind == second.kind == "comm"


def test_a_folder_gives_every_table_and_passes_over_others(tmp_path):
    write_csv(tmp_path / "a.csv", "operation,moved_bytes,latency_us\nnorm,100,2\n")
    write_csv(tmp_path / "b.csv", "fruit,colour\napple,red\n")
    (tmp_path / "c.txt").write_text("no table", encoding="utf-8")
    assert [table.kind for table in read_tables(tmp_path)] == ["elementwise"]


def test_whole_attention_layers_are_not_mistaken_for_kernels(tmp_path):
    path = write_csv(
        tmp_path / "module.csv",
        "phase,batch,len,heads,kv_dtype,gemm_type,latency_us\ndecode,1,128,16,bfloat16,bfloat16,99\n",
    )
    (table,) = read_tables(path)
    assert table.kind == "mla_module"
    assert kernel_sets([table], FIGURES) == ()


@pytest.mark.parametrize("latency", ["0", "-1", "nan"])
def test_a_bad_latency_names_file_and_row(tmp_path, latency):
    path = write_csv(tmp_path / "g.csv", f"m,n,k,dtype,latency_us\n1,2,3,fp8,1.5\n1,2,3,fp8,{latency}\n")
    with pytest.raises(InputError, match=r"g\.csv: latency_us of row 2"):
        read_tables(path)


def test_what_is_no_kernel_table_is_refused_with_the_known_columns(tmp_path):
    path = write_csv(tmp_path / "g.csv", "fruit,colour\napple,red\n")
    with pytest.raises(InputError) as caught:
        read_tables(path)
    assert "gemm: m, n, k, dtype" in caught.value.hint
    with pytest.raises(InputError, match="no kernel measurements"):
        read_tables(tmp_path / "missing")
    with pytest.raises(InputError, match="no kernel table among the 1 files"):
        read_tables(tmp_path)


def test_what_is_written_reads_back(tmp_path):
    table = KernelTable(
        kind="elementwise",
        numbers={"moved_bytes": np.array([10.0, 20.0])},
        words={"operation": np.array(["norm", "rope"])},
        latency_s=np.array([1e-6, 2e-6]),
        source="made",
    )
    write_tables([table], tmp_path)
    (again,) = read_tables(tmp_path)
    assert again.words["operation"].tolist() == ["norm", "rope"]
    assert again.latency_s.tolist() == pytest.approx([1e-6, 2e-6])


def test_every_column_is_documented():
    assert all(meaning for columns in COLUMNS.values() for meaning in columns.values())


def test_windows_cap_pairs_and_keys(tmp_path):
    head = "batch,isl,prefix,heads,kv_heads,head_dim,window_size,dtype,kv_dtype,latency_us"
    path = write_csv(
        tmp_path / "p.csv", f"{head}\n2,4,0,8,2,64,0,bfloat16,bfloat16,9\n2,4,0,8,2,64,2,bfloat16,bfloat16,9\n"
    )
    full, window = kernel_sets(read_tables(path), FIGURES)
    assert (full.name, window.name) == (
        "prefill_attention.bf16.kv_bf16.d64",
        "prefill_attention.bf16.kv_bf16.d64.window",
    )
    assert full.inputs["pairs"] == 20  # 2 x (1 + 2 + 3 + 4)
    assert window.inputs["pairs"] == 14  # 2 x (1 + 2 + 2 + 2)


def test_balanced_routing_touches_every_expert_once_there_are_enough_tokens(tmp_path):
    head = "tokens,hidden,inter,topk,experts,tp,ep,dtype,kernel,distribution,latency_us"
    rows = "1,64,32,8,128,1,8,fp8,x,balanced,9\n16,64,32,8,128,2,8,fp8,x,balanced,9\n"
    (kernels,) = kernel_sets(read_tables(write_csv(tmp_path / "m.csv", f"{head}\n{rows}")), FIGURES)
    assert kernels.name == "moe.fp8.gated.balanced"
    # 8 of 128 experts a token, 16 experts a rank: 1 token touches 1 here, 16 tokens all 16
    assert sorted(kernels.inputs["touched"]) == [1.0, 16.0]
    assert sorted(kernels.inputs["inner"]) == [16.0, 32.0]  # split over tp = 2


def test_expert_exchange_bytes_by_hand():
    # low latency: 8 copies a token, 7/8 of them remote: 10 x 100 x 2 x 7 = 14000
    tokens = np.array(10.0)
    assert sent_by_expert_exchange(tokens, 100, 2.0, 8, 8, low_latency=True) == pytest.approx(14000)
    # high throughput: distinct remote ranks 7 x (1 - (7/8)^8) = 4.595
    assert sent_by_expert_exchange(tokens, 100, 2.0, 8, 8, low_latency=False) == pytest.approx(
        2000 * 7 * (1 - (7 / 8) ** 8)
    )


@pytest.mark.parametrize(
    ("heads", "kv_heads", "name"), [(8, 8, "mha"), (64, 8, "gqa"), (32, 1, "gqa32"), (64, 1, "wide")]
)
def test_sharing_of_keys(heads, kv_heads, name):
    assert sharing_of(heads, kv_heads) == name
