"""fsspec's s3fs, through which pandas, dask and others read."""
import os
import urllib.request

import s3fs

from cases import ENDPOINT, KEY, MIB, NAMES, SECRET, equal, play, refused

files = s3fs.S3FileSystem(
    key=KEY,
    secret=SECRET,
    endpoint_url=ENDPOINT,
    client_kwargs={"region_name": "us-east-1"},
    # Without it, botocore presigns with the version before.
    config_kwargs={"s3": {"addressing_style": "path"}, "signature_version": "s3v4"},
)
LARGE = os.urandom(12 * MIB + 1)


def list_buckets():
    equal(sorted(files.ls("")), ["data", "shared"])


def write_and_read():
    with files.open("data/fsspec/small", "wb") as file:
        file.write(b"hello")
    equal(files.cat("data/fsspec/small"), b"hello")
    equal(files.cat_file("data/fsspec/small", start=1, end=3), b"el")


def write_in_parts_and_read_ranges():
    with files.open("data/fsspec/large", "wb", block_size=5 * MIB) as file:
        file.write(LARGE)
    with files.open("data/fsspec/large", "rb", block_size=MIB) as file:
        file.seek(7 * MIB)
        equal(file.read(100), LARGE[7 * MIB : 7 * MIB + 100])
    equal(files.cat("data/fsspec/large"), LARGE)
    equal(files.size("data/fsspec/large"), len(LARGE))


def append():
    with files.open("data/fsspec/small", "ab") as file:
        file.write(b" again")
    equal(files.cat("data/fsspec/small"), b"hello again")


def mark_a_directory():
    files.touch("data/fsspec/dir/")
    equal(files.isdir("data/fsspec/dir"), True)
    equal("data/fsspec/dir/" in files.find("data/fsspec", withdirs=True) or files.exists("data/fsspec/dir"), True)


def names_that_need_escaping():
    for name in NAMES:
        files.pipe(f"data/fsspec/names/{name}", name.encode())
    files.invalidate_cache()
    equal(sorted(files.find("data/fsspec/names")), sorted(f"data/fsspec/names/{name}" for name in NAMES))
    for name in NAMES:
        equal(files.cat_file(f"data/fsspec/names/{name}"), name.encode())


def copy_and_move():
    files.copy("data/fsspec/large", "shared/fsspec/copy")
    equal(files.size("shared/fsspec/copy"), len(LARGE))
    files.mv("shared/fsspec/copy", "data/fsspec/moved")
    equal(files.exists("shared/fsspec/copy"), False)


def metadata():
    files.pipe("data/fsspec/meta", b"x")
    files.setxattr("data/fsspec/meta", copy_kwargs={"ContentType": "text/csv"}, colour="blue")
    equal(files.getxattr("data/fsspec/meta", "colour"), "blue")


def a_presigned_url():
    with urllib.request.urlopen(files.sign("data/fsspec/small", expiration=60)) as answer:
        equal(answer.read(), b"hello again")


def read_a_missing_object():
    refused(FileNotFoundError, lambda: files.cat("data/fsspec/none"))
    equal(files.exists("data/fsspec/none"), False)


def delete_all():
    files.rm("data/fsspec", recursive=True)
    files.invalidate_cache()
    equal(files.find("data/fsspec"), [])


play(
    [
        list_buckets,
        write_and_read,
        write_in_parts_and_read_ranges,
        append,
        mark_a_directory,
        names_that_need_escaping,
        copy_and_move,
        metadata,
        a_presigned_url,
        read_a_missing_object,
        delete_all,
    ]
)
