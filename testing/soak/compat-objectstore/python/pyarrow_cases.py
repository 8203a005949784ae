"""pyarrow, whose file system is Arrow's in C++, which is the AWS SDK for C++."""
import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from cases import HOST, KEY, MIB, NAMES, SECRET, equal, play, refused

s3 = fs.S3FileSystem(access_key=KEY, secret_key=SECRET, endpoint_override=HOST, scheme="http", region="us-east-1")
LARGE = os.urandom(12 * MIB + 1)
TABLE = pa.table({"n": list(range(1000)), "part": ["a", "b"] * 500})


def kinds(path, recursive=False):
    return {info.path: info.type.name for info in s3.get_file_info(fs.FileSelector(path, recursive=recursive))}


def make_directories():
    s3.create_dir("data/arrow/x/y", recursive=True)
    equal(s3.get_file_info("data/arrow/x/y").type, fs.FileType.Directory)
    equal(kinds("data/arrow", recursive=True), {"data/arrow/x": "Directory", "data/arrow/x/y": "Directory"})


def write_and_read_a_small_file():
    with s3.open_output_stream("data/arrow/small") as out:
        out.write(b"hello")
    with s3.open_input_stream("data/arrow/small") as file:
        equal(file.read(), b"hello")


def write_an_empty_file():
    with s3.open_output_stream("data/arrow/empty"):
        pass
    equal(s3.get_file_info("data/arrow/empty").size, 0)


def write_in_parts_and_read_ranges():
    with s3.open_output_stream("data/arrow/large") as out:
        for i in range(0, len(LARGE), MIB):
            out.write(LARGE[i : i + MIB])
    with s3.open_input_file("data/arrow/large") as file:
        equal(file.size(), len(LARGE))
        file.seek(7 * MIB)
        equal(file.read(100), LARGE[7 * MIB : 7 * MIB + 100])
        file.seek(0)
        equal(file.read(), LARGE)


def keep_metadata():
    with s3.open_output_stream("data/arrow/meta", metadata={"Content-Type": "text/csv", "colour": "blue"}) as out:
        out.write(b"x")
    with s3.open_input_file("data/arrow/meta") as file:
        file.read()
        equal(file.metadata()["Content-Type"], b"text/csv")


def write_a_dataset_of_parquet_files():
    ds.write_dataset(TABLE, "data/arrow/set", format="parquet", partitioning=["part"], filesystem=s3)
    found = ds.dataset("data/arrow/set", format="parquet", partitioning=["part"], filesystem=s3)
    equal(found.count_rows(), 1000)
    equal(found.to_table(filter=ds.field("part") == "a").num_rows, 500)


def write_and_read_one_parquet_file():
    pq.write_table(TABLE, "data/arrow/one.parquet", filesystem=s3)
    equal(pq.read_table("data/arrow/one.parquet", columns=["n"], filesystem=s3).num_rows, 1000)


def names_that_need_escaping():
    for name in NAMES:
        with s3.open_output_stream(f"data/arrow/names/{name}") as out:
            out.write(name.encode())
    for name in NAMES:
        with s3.open_input_stream(f"data/arrow/names/{name}") as file:
            equal(file.read(), name.encode())


def copy_and_move():
    s3.copy_file("data/arrow/large", "shared/arrow/copy")
    equal(s3.get_file_info("shared/arrow/copy").size, len(LARGE))
    s3.move("shared/arrow/copy", "data/arrow/moved")
    equal(s3.get_file_info("shared/arrow/copy").type, fs.FileType.NotFound)
    equal(s3.get_file_info("data/arrow/moved").size, len(LARGE))


def look_up_a_missing_object():
    equal(s3.get_file_info("data/arrow/none").type, fs.FileType.NotFound)
    refused(FileNotFoundError, lambda: s3.open_input_stream("data/arrow/none").read())


def delete_a_file_and_keep_its_directory():
    with s3.open_output_stream("data/arrow/x/y/only") as out:
        out.write(b"x")
    s3.delete_file("data/arrow/x/y/only")
    equal(s3.get_file_info("data/arrow/x/y").type, fs.FileType.Directory)


def delete_directories():
    s3.delete_dir_contents("data/arrow/x")
    equal(kinds("data/arrow/x"), {})
    s3.delete_dir("data/arrow")
    equal(s3.get_file_info("data/arrow").type, fs.FileType.NotFound)


play(
    [
        make_directories,
        write_and_read_a_small_file,
        write_an_empty_file,
        write_in_parts_and_read_ranges,
        keep_metadata,
        write_a_dataset_of_parquet_files,
        write_and_read_one_parquet_file,
        names_that_need_escaping,
        copy_and_move,
        look_up_a_missing_object,
        delete_a_file_and_keep_its_directory,
        delete_directories,
    ]
)
