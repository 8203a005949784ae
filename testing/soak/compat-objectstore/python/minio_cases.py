"""minio-py."""
import io
import os
import urllib.request
from datetime import timedelta

from minio import Minio
from minio.commonconfig import REPLACE, ComposeSource, CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from cases import HOST, KEY, MIB, NAMES, SECRET, equal, play, refused

client = Minio(HOST, access_key=KEY, secret_key=SECRET, secure=False, region="us-east-1")
LARGE = os.urandom(12 * MIB + 1)


def put(key, content, **more):
    client.put_object("data", key, io.BytesIO(content), len(content), **more)


def read(key, **more):
    answer = client.get_object("data", key, **more)
    try:
        return answer.read()
    finally:
        answer.close()
        answer.release_conn()


def list_buckets():
    equal(sorted(bucket.name for bucket in client.list_buckets()), ["data", "shared"])
    equal(client.bucket_exists("data"), True)


def find_the_region():
    other = Minio(HOST, access_key=KEY, secret_key=SECRET, secure=False)
    equal(other.bucket_exists("data"), True)


def put_and_get():
    put("minio/small", b"hello", metadata={"colour": "blue"}, content_type="text/plain")
    equal(read("minio/small"), b"hello")
    equal(read("minio/small", offset=1, length=2), b"el")
    found = client.stat_object("data", "minio/small")
    equal((found.size, found.content_type, found.metadata["x-amz-meta-colour"]), (5, "text/plain", "blue"))


def put_in_parts():
    put("minio/large", LARGE, part_size=5 * MIB)
    equal(read("minio/large"), LARGE)


def put_of_unknown_length():
    client.put_object("data", "minio/stream", io.BytesIO(LARGE), -1, part_size=5 * MIB)
    equal(read("minio/stream"), LARGE)


def mark_a_directory():
    put("minio/dir/", b"")
    equal([one.object_name for one in client.list_objects("data", "minio/dir/")], ["minio/dir/"])


def names_that_need_escaping():
    for name in NAMES:
        put(f"minio/names/{name}", name.encode())
    found = [one.object_name for one in client.list_objects("data", "minio/names/", recursive=True)]
    equal(sorted(found), sorted(f"minio/names/{name}" for name in NAMES))
    for name in NAMES:
        equal(read(f"minio/names/{name}"), name.encode())


def copy_with_other_metadata():
    source = CopySource("data", "minio/small")
    client.copy_object("data", "minio/copy", source, metadata={"colour": "red"}, metadata_directive=REPLACE)
    equal(client.stat_object("data", "minio/copy").metadata["x-amz-meta-colour"], "red")


def compose():
    client.compose_object(
        "data", "minio/composed", [ComposeSource("data", "minio/large"), ComposeSource("data", "minio/small")]
    )
    equal(read("minio/composed"), LARGE + b"hello")


def presigned_urls():
    put_url = client.presigned_put_object("data", "minio/by-url", expires=timedelta(minutes=5))
    urllib.request.urlopen(urllib.request.Request(put_url, data=b"by url", method="PUT")).close()
    get_url = client.presigned_get_object(
        "data", "minio/by-url", expires=timedelta(minutes=5), response_headers={"response-content-type": "text/csv"}
    )
    with urllib.request.urlopen(get_url) as answer:
        equal((answer.read(), answer.headers["content-type"]), (b"by url", "text/csv"))


def read_a_missing_object():
    refused(S3Error, lambda: read("minio/none"), "NoSuchKey")


def delete_all():
    keys = [DeleteObject(one.object_name) for one in client.list_objects("data", "minio/", recursive=True)]
    equal(list(client.remove_objects("data", keys)), [])
    equal(list(client.list_objects("data", "minio/", recursive=True)), [])


play(
    [
        list_buckets,
        find_the_region,
        put_and_get,
        put_in_parts,
        put_of_unknown_length,
        mark_a_directory,
        names_that_need_escaping,
        copy_with_other_metadata,
        compose,
        presigned_urls,
        read_a_missing_object,
        delete_all,
    ]
)
