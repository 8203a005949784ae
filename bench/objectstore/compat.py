"""boto3, as it comes, against the S3 front. One line of JSON a case: its name and why it failed, if it did."""
import hashlib
import io
import json
import os
import sys

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1})
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", config=config)
MIB = 1024 * 1024
B = "data"


def case(name, act):
    try:
        act()
        print(json.dumps({"case": name}), flush=True)
    except Exception as error:  # every failure is a result
        print(json.dumps({"case": name, "failed": f"{type(error).__name__}: {error}"[:300]}), flush=True)


def equal(a, b):
    if a != b:
        raise AssertionError(f"{a!r} is not {b!r}"[:200])


def refused(status, act):
    try:
        act()
    except ClientError as error:
        equal(error.response["ResponseMetadata"]["HTTPStatusCode"], status)
        return
    raise AssertionError("not refused")


def body(key, **more):
    return s3.get_object(Bucket=B, Key=key, **more)["Body"].read()


NAMES = ["plain", "a/b/c", "with space", "ä/ö", "日本/語", "😀", "q'uo\"te", "<&>", "a+b", "100%", "a?b#c", "(a)*!", "~t_u-d.x", "a:b@c=d,e;f$", "x" * 200]
for name in NAMES:
    def named(key="py/" + name):
        s3.put_object(Bucket=B, Key=key, Body=key.encode())
        equal(body(key), key.encode())
        equal([o["Key"] for o in s3.list_objects_v2(Bucket=B, Prefix=key)["Contents"]], [key])
        s3.copy_object(Bucket=B, Key=key + ".copy", CopySource={"Bucket": B, "Key": key})
        equal(body(key + ".copy"), key.encode())
        s3.delete_objects(Bucket=B, Delete={"Objects": [{"Key": key}, {"Key": key + ".copy"}]})
        refused(404, lambda: s3.head_object(Bucket=B, Key=key))
    case(f"name {name[:20]}", named)

for size in [0, 1, 1023, 65536, MIB + 1, 9 * MIB]:
    def sized(size=size):
        data = os.urandom(size)
        s3.put_object(Bucket=B, Key="size", Body=data)
        equal(hashlib.md5(body("size")).digest(), hashlib.md5(data).digest())
    case(f"size {size}", sized)

for algorithm in ["CRC32", "SHA1", "SHA256"]:
    case(f"checksum {algorithm}", lambda a=algorithm: s3.put_object(Bucket=B, Key="sum", Body=b"x" * 70000, ChecksumAlgorithm=a))
    case(f"checksum of a stream {algorithm}", lambda a=algorithm: s3.put_object(Bucket=B, Key="sum", Body=io.BytesIO(b"x" * 70000), ChecksumAlgorithm=a))

for wanted, found in [("bytes=0-0", b"0"), ("bytes=2-5", b"2345"), ("bytes=7-", b"789"), ("bytes=-2", b"89")]:
    def ranged(wanted=wanted, found=found):
        s3.put_object(Bucket=B, Key="range", Body=b"0123456789")
        equal(body("range", Range=wanted), found)
    case(f"range {wanted}", ranged)


def conditions():
    tag = s3.put_object(Bucket=B, Key="cond", Body=b"x")["ETag"]
    equal(body("cond", IfMatch=tag), b"x")
    refused(304, lambda: body("cond", IfNoneMatch=tag))
    refused(412, lambda: body("cond", IfMatch='"other"'))
    refused(412, lambda: s3.put_object(Bucket=B, Key="cond", Body=b"y", IfNoneMatch="*"))


def metadata():
    s3.put_object(Bucket=B, Key="meta", Body=b"x", ContentType="text/csv", Metadata={"colour": "blue"})
    head = s3.head_object(Bucket=B, Key="meta")
    equal((head["ContentType"], head["Metadata"]), ("text/csv", {"colour": "blue"}))


def transfer():
    data = os.urandom(20 * MIB)
    settings = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(data), B, "transfer", Config=settings)
    out = io.BytesIO()
    s3.download_fileobj(B, "transfer", out, Config=settings)
    equal(hashlib.md5(out.getvalue()).digest(), hashlib.md5(data).digest())


def managed_copy():
    s3.copy({"Bucket": B, "Key": "transfer"}, "shared", "copied", Config=TransferConfig(multipart_threshold=8 * MIB))
    equal(s3.head_object(Bucket="shared", Key="copied")["ContentLength"], 20 * MIB)


def pages():
    for i in range(7):
        s3.put_object(Bucket=B, Key=f"page/{i}/x", Body=b"x")
    paginator = s3.get_paginator("list_objects_v2")
    found = [o["Key"] for page in paginator.paginate(Bucket=B, Prefix="page/", PaginationConfig={"PageSize": 2}) for o in page["Contents"]]
    equal(found, [f"page/{i}/x" for i in range(7)])
    one = s3.get_paginator("list_objects")
    rolled = [p["Prefix"] for page in one.paginate(Bucket=B, Prefix="page/", Delimiter="/", PaginationConfig={"PageSize": 3}) for p in page.get("CommonPrefixes", [])]
    equal(rolled, [f"page/{i}/" for i in range(7)])


def multipart():
    upload = s3.create_multipart_upload(Bucket=B, Key="mpu")["UploadId"]
    first = s3.upload_part(Bucket=B, Key="mpu", UploadId=upload, PartNumber=1, Body=b"a" * 5 * MIB)["ETag"]
    last = s3.upload_part(Bucket=B, Key="mpu", UploadId=upload, PartNumber=2, Body=b"b")["ETag"]
    equal(len(s3.list_parts(Bucket=B, Key="mpu", UploadId=upload)["Parts"]), 2)
    equal([u["UploadId"] for u in s3.list_multipart_uploads(Bucket=B)["Uploads"]], [upload])
    parts = [{"ETag": first, "PartNumber": 1}, {"ETag": last, "PartNumber": 2}]
    s3.complete_multipart_upload(Bucket=B, Key="mpu", UploadId=upload, MultipartUpload={"Parts": parts})
    equal(s3.head_object(Bucket=B, Key="mpu")["ContentLength"], 5 * MIB + 1)


def abort():
    upload = s3.create_multipart_upload(Bucket=B, Key="gone")["UploadId"]
    s3.abort_multipart_upload(Bucket=B, Key="gone", UploadId=upload)
    refused(404, lambda: s3.upload_part(Bucket=B, Key="gone", UploadId=upload, PartNumber=1, Body=b"x"))


case("conditions", conditions)
case("metadata", metadata)
case("managed transfer", transfer)
case("managed copy", managed_copy)
case("pages", pages)
case("multipart", multipart)
case("abort", abort)
case("buckets", lambda: equal([b["Name"] for b in s3.list_buckets()["Buckets"]], ["data", "shared"]))
case("bucket is there", lambda: s3.head_bucket(Bucket=B))
case("other bucket", lambda: refused(404, lambda: s3.head_bucket(Bucket="space")))
case("no bucket is made", lambda: refused(409, lambda: s3.create_bucket(Bucket=B)))
case("no ACL", lambda: refused(501, lambda: s3.get_object_acl(Bucket=B, Key="mpu")))
case("no tags", lambda: refused(501, lambda: s3.get_object_tagging(Bucket=B, Key="mpu")))
case("no versions", lambda: refused(501, lambda: s3.list_object_versions(Bucket=B)))
