// Runs some cases with the AWS SDK for Go, version 2. Standard input is a JSON object with endpoint, keys and names; standard
// output has one line of JSON for each case.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

type asked struct {
	Endpoint string   `json:"endpoint"`
	Names    []string `json:"names"`
	Keys     struct {
		AccessKeyId     string
		SecretAccessKey string
	} `json:"keys"`
}

type play struct {
	name string
	act  func(context.Context) error
}

func main() {
	var in asked
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		panic(err)
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(in.Endpoint),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(in.Keys.AccessKeyId, in.Keys.SecretAccessKey, ""),
	})
	out := json.NewEncoder(os.Stdout)
	for _, one := range cases(client, in.Names) {
		result := map[string]string{"case": one.name}
		if err := one.act(context.Background()); err != nil {
			result["failed"] = fmt.Sprintf("%.400s", err.Error())
		}
		if err := out.Encode(result); err != nil {
			panic(err)
		}
	}
}

// Each case uses what the one before it has stored.
func cases(client *s3.Client, names []string) []play {
	data := aws.String("data")
	large := make([]byte, 20<<20+1)
	rand.New(rand.NewSource(1)).Read(large)
	manager := transfermanager.New(client)
	presigner := s3.NewPresignClient(client)

	put := func(ctx context.Context, key string, content []byte) error {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: data, Key: &key, Body: bytes.NewReader(content)})
		return err
	}
	holds := func(ctx context.Context, key string, content []byte) error {
		answer, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: data, Key: &key})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		found, err := io.ReadAll(answer.Body)
		if err == nil && !bytes.Equal(found, content) {
			err = fmt.Errorf("%d bytes were read that differ from the %d written", len(found), len(content))
		}
		return err
	}
	return []play{
		{"list buckets", func(ctx context.Context) error {
			answer, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
			if err == nil && len(answer.Buckets) != 2 {
				err = fmt.Errorf("%d buckets", len(answer.Buckets))
			}
			return err
		}},
		{"put and get", func(ctx context.Context) error {
			return errors.Join(put(ctx, "go/small", []byte("hello")), holds(ctx, "go/small", []byte("hello")))
		}},
		{"put with each checksum", func(ctx context.Context) error {
			for _, algorithm := range []types.ChecksumAlgorithm{"CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"} {
				key := aws.String("go/" + string(algorithm))
				_, err := client.PutObject(ctx, &s3.PutObjectInput{
					Bucket: data, Key: key, Body: strings.NewReader("hello"), ChecksumAlgorithm: algorithm,
				})
				if err != nil {
					return err
				}
				if err := holds(ctx, *key, []byte("hello")); err != nil {
					return err
				}
			}
			return nil
		}},
		{"put with metadata, requested encryption and owner", func(ctx context.Context) error {
			key := aws.String("go/asked")
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: data, Key: key, Body: strings.NewReader("x"), ContentType: aws.String("text/csv"),
				Metadata: map[string]string{"colour": "blue"}, ServerSideEncryption: "AES256",
				ExpectedBucketOwner: aws.String("111122223333"), ACL: "bucket-owner-full-control",
				StorageClass: "STANDARD", RequestPayer: "requester",
			})
			if err != nil {
				return err
			}
			answer, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: data, Key: key})
			if err == nil && (*answer.ContentType != "text/csv" || answer.Metadata["colour"] != "blue") {
				err = fmt.Errorf("%s %v", *answer.ContentType, answer.Metadata)
			}
			return err
		}},
		{"upload in parts", func(ctx context.Context) error {
			_, err := manager.UploadObject(ctx, &transfermanager.UploadObjectInput{
				Bucket: data, Key: aws.String("go/large"), Body: bytes.NewReader(large),
			})
			return errors.Join(err, holds(ctx, "go/large", large))
		}},
		{"download in parts", func(ctx context.Context) error {
			to := &writerAt{content: make([]byte, len(large))}
			_, err := manager.DownloadObject(ctx, &transfermanager.DownloadObjectInput{
				Bucket: data, Key: aws.String("go/large"), WriterAt: to,
			})
			if err == nil && !bytes.Equal(to.content, large) {
				err = errors.New("the downloaded bytes differ")
			}
			return err
		}},
		{"mark a directory", func(ctx context.Context) error {
			if err := put(ctx, "go/dir/", nil); err != nil {
				return err
			}
			_, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: data, Key: aws.String("go/dir/")})
			return err
		}},
		{"names that need escaping", func(ctx context.Context) error {
			for _, name := range names {
				if err := errors.Join(put(ctx, "go/names/"+name, []byte(name)), holds(ctx, "go/names/"+name, []byte(name))); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		}},
		{"list in pages", func(ctx context.Context) error {
			pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
				Bucket: data, Prefix: aws.String("go/names/"), MaxKeys: aws.Int32(5),
			})
			count := 0
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return err
				}
				count += len(page.Contents)
			}
			if count != len(names) {
				return fmt.Errorf("%d objects", count)
			}
			return nil
		}},
		{"copy", func(ctx context.Context) error {
			_, err := client.CopyObject(ctx, &s3.CopyObjectInput{
				Bucket: data, Key: aws.String("go/copy"), CopySource: aws.String("data/go/small"),
			})
			return errors.Join(err, holds(ctx, "go/copy", []byte("hello")))
		}},
		{"presigned URLs", func(ctx context.Context) error {
			key := aws.String("go/by-url")
			soon := s3.WithPresignExpires(time.Minute)
			signed, err := presigner.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: data, Key: key}, soon)
			if err != nil {
				return err
			}
			if _, err := follow(signed.Method, signed.URL, signed.SignedHeader, "by url"); err != nil {
				return err
			}
			read, err := presigner.PresignGetObject(ctx, &s3.GetObjectInput{
				Bucket: data, Key: key, ResponseContentType: aws.String("text/csv"),
			}, soon)
			if err != nil {
				return err
			}
			found, err := follow(read.Method, read.URL, read.SignedHeader, "")
			if err == nil && found != "by url" {
				err = errors.New(found)
			}
			if err != nil {
				return err
			}
			gone, err := presigner.PresignDeleteObject(ctx, &s3.DeleteObjectInput{Bucket: data, Key: key}, soon)
			if err != nil {
				return err
			}
			_, err = follow(gone.Method, gone.URL, gone.SignedHeader, "")
			return err
		}},
		{"read a missing object", func(ctx context.Context) error {
			var missing *types.NoSuchKey
			if err := holds(ctx, "go/none", nil); !errors.As(err, &missing) {
				return fmt.Errorf("%w instead of NoSuchKey", err)
			}
			return nil
		}},
		{"delete all", func(ctx context.Context) error {
			page, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: data, Prefix: aws.String("go/")})
			if err != nil {
				return err
			}
			var all []types.ObjectIdentifier
			for _, one := range page.Contents {
				all = append(all, types.ObjectIdentifier{Key: one.Key})
			}
			answer, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: data, Delete: &types.Delete{Objects: all}})
			if err == nil && len(answer.Errors) > 0 {
				err = fmt.Errorf("%v", answer.Errors)
			}
			return err
		}},
	}
}

func follow(method, url string, headers http.Header, body string) (string, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for name, values := range headers {
		if !strings.EqualFold(name, "Host") {
			request.Header[name] = values
		}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%d %s", answer.StatusCode, text)
	}
	return string(text), err
}

type writerAt struct{ content []byte }

func (to *writerAt) WriteAt(piece []byte, at int64) (int, error) {
	return copy(to.content[at:], piece), nil
}
