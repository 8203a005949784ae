package space;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.ObjectCannedACL;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.ServerSideEncryption;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

/**
 * Runs some cases with the AWS SDK for Java, version 2. Its arguments are endpoint, both keys and names of objects in
 * Base64; standard output has one line for each case: its name, a tab, and the error if it failed.
 */
public final class Compat {
  private interface Act {
    void run() throws Exception;
  }

  private static final byte[] LARGE = new byte[20 << 20];

  public static void main(String[] arguments) throws Exception {
    new Random(1).nextBytes(LARGE);
    var endpoint = URI.create(arguments[0]);
    var credentials =
        StaticCredentialsProvider.create(AwsBasicCredentials.create(arguments[1], arguments[2]));
    var names = new ArrayList<String>();
    for (var text : Arrays.copyOfRange(arguments, 3, arguments.length))
      names.add(new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8));
    var client =
        S3Client.builder()
            .endpointOverride(endpoint)
            .region(Region.US_EAST_1)
            .credentialsProvider(credentials)
            .forcePathStyle(true)
            .httpClient(UrlConnectionHttpClient.create())
            .build();
    var parallel =
        S3AsyncClient.builder()
            .endpointOverride(endpoint)
            .region(Region.US_EAST_1)
            .credentialsProvider(credentials)
            .forcePathStyle(true)
            .multipartEnabled(true)
            .build();
    var presigner =
        S3Presigner.builder()
            .endpointOverride(endpoint)
            .region(Region.US_EAST_1)
            .credentialsProvider(credentials)
            .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build())
            .build();
    for (var one : cases(client, parallel, presigner, names).entrySet()) {
      var failed = "";
      try {
        one.getValue().run();
      } catch (Throwable error) {
        failed = error.toString().replaceAll("\\s+", " ");
      }
      System.out.println(one.getKey() + "\t" + failed);
    }
    System.exit(0);
  }

  /** Each case uses what the one before it has stored. */
  private static Map<String, Act> cases(
      S3Client client, S3AsyncClient parallel, S3Presigner presigner, List<String> names) {
    var cases = new LinkedHashMap<String, Act>();
    cases.put("list buckets", () -> equal(client.listBuckets().buckets().size(), 2));
    cases.put(
        "put and get",
        () -> {
          put(client, "java/small", "hello");
          equal(read(client, "java/small"), "hello");
        });
    cases.put(
        "put a stream with a checksum behind it",
        () -> {
          for (var algorithm :
              List.of(
                  ChecksumAlgorithm.CRC32,
                  ChecksumAlgorithm.CRC32_C,
                  ChecksumAlgorithm.SHA1,
                  ChecksumAlgorithm.SHA256)) {
            var stream = new ByteArrayInputStream(LARGE, 0, 1 << 20);
            client.putObject(
                request -> request.bucket("data").key("java/stream").checksumAlgorithm(algorithm),
                RequestBody.fromInputStream(stream, 1 << 20));
            var found = client.getObjectAsBytes(get -> get.bucket("data").key("java/stream"));
            equal(Arrays.equals(found.asByteArray(), Arrays.copyOf(LARGE, 1 << 20)), true);
          }
        });
    cases.put(
        "put with metadata, requested encryption and owner",
        () -> {
          client.putObject(
              request ->
                  request
                      .bucket("data")
                      .key("java/asked")
                      .metadata(Map.of("colour", "blue"))
                      .serverSideEncryption(ServerSideEncryption.AES256)
                      .acl(ObjectCannedACL.BUCKET_OWNER_FULL_CONTROL)
                      .expectedBucketOwner("111122223333")
                      .storageClass("STANDARD"),
              RequestBody.fromString("x"));
          var head = client.headObject(request -> request.bucket("data").key("java/asked"));
          equal(head.metadata(), Map.of("colour", "blue"));
        });
    cases.put(
        "upload in parts, in parallel",
        () -> {
          parallel
              .putObject(
                  request -> request.bucket("data").key("java/large"),
                  AsyncRequestBody.fromByteBuffer(ByteBuffer.wrap(LARGE)))
              .join();
          equal(
              client.headObject(request -> request.bucket("data").key("java/large")).contentLength(),
              (long) LARGE.length);
        });
    cases.put(
        "download by part numbers",
        () -> {
          var found =
              parallel
                  .getObject(
                      request -> request.bucket("data").key("java/large"),
                      AsyncResponseTransformer.toBytes())
                  .join();
          equal(Arrays.equals(found.asByteArray(), LARGE), true);
        });
    cases.put(
        "read a range",
        () -> {
          var part =
              client.getObjectAsBytes(
                  request -> request.bucket("data").key("java/small").range("bytes=1-2"));
          equal(part.asUtf8String(), "el");
        });
    cases.put(
        "mark a directory",
        () -> {
          client.putObject(
              request -> request.bucket("data").key("java/dir/"), RequestBody.empty());
          equal(
              client.headObject(request -> request.bucket("data").key("java/dir/")).contentLength(),
              0L);
        });
    cases.put(
        "names that need escaping",
        () -> {
          for (var name : names) {
            put(client, "java/names/" + name, name);
            equal(read(client, "java/names/" + name), name);
          }
        });
    cases.put(
        "list in pages",
        () -> {
          var pages =
              client.listObjectsV2Paginator(
                  request -> request.bucket("data").prefix("java/names/").maxKeys(5));
          equal((int) pages.contents().stream().count(), names.size());
        });
    cases.put(
        "copy",
        () -> {
          client.copyObject(
              request ->
                  request
                      .sourceBucket("data")
                      .sourceKey("java/small")
                      .destinationBucket("data")
                      .destinationKey("java/copy"));
          equal(read(client, "java/copy"), "hello");
        });
    cases.put(
        "presigned URLs",
        () -> {
          var http = HttpClient.newHttpClient();
          var put =
              presigner.presignPutObject(
                  request ->
                      request
                          .signatureDuration(Duration.ofMinutes(1))
                          .putObjectRequest(object -> object.bucket("data").key("java/by-url")));
          var stored =
              http.send(
                  HttpRequest.newBuilder(put.url().toURI())
                      .PUT(HttpRequest.BodyPublishers.ofString("by url"))
                      .build(),
                  HttpResponse.BodyHandlers.ofString());
          equal(stored.statusCode() + stored.body(), "200");
          var get =
              presigner.presignGetObject(
                  request ->
                      request
                          .signatureDuration(Duration.ofMinutes(1))
                          .getObjectRequest(
                              object ->
                                  object
                                      .bucket("data")
                                      .key("java/by-url")
                                      .responseContentType("text/csv")));
          var found =
              http.send(
                  HttpRequest.newBuilder(get.url().toURI()).build(),
                  HttpResponse.BodyHandlers.ofString());
          equal(found.body(), "by url");
          equal(found.headers().firstValue("content-type").orElse(""), "text/csv");
        });
    cases.put(
        "read a missing object",
        () -> {
          try {
            read(client, "java/none");
          } catch (NoSuchKeyException expected) {
            return;
          }
          throw new AssertionError("a missing object was found");
        });
    cases.put(
        "delete all",
        () -> {
          var all =
              client
                  .listObjectsV2Paginator(request -> request.bucket("data").prefix("java/"))
                  .contents()
                  .stream()
                  .map(one -> ObjectIdentifier.builder().key(one.key()).build())
                  .toList();
          var answer =
              client.deleteObjects(
                  request -> request.bucket("data").delete(set -> set.objects(all)));
          equal(answer.errors(), List.of());
        });
    return cases;
  }

  private static void put(S3Client client, String key, String content) {
    client.putObject(request -> request.bucket("data").key(key), RequestBody.fromString(content));
  }

  private static String read(S3Client client, String key) {
    return client.getObjectAsBytes(request -> request.bucket("data").key(key)).asUtf8String();
  }

  private static void equal(Object found, Object expected) {
    if (!found.equals(expected)) throw new AssertionError(found + " is not " + expected);
  }
}
