/*
 * Ends with 0 when it runs in gVisor, else with 1 and a line that says what it found instead. Targets of walls.h are
 * asked, too.
 *
 * "prove TARGET…" asks of the walls alone, and patiently; "listen PORT…" is the canary that they are tried with.
 *
 * It is the first container of every Assistant's pod, so it asks only for what the pod's author cannot arrange: each
 * sign comes from the kernel itself, none from a file that could be mounted or a variable, and all must agree. What
 * cannot be read is no sign.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/personality.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "walls.h"

enum { IN_GVISOR = 0, NOT_IN_GVISOR = 1, MISUSED = 2 };
enum { SYSLOG_ACTION_READ_ALL = 3 };

/* gVisor's kernel has a log of its own, which begins with its name. Linux refuses its log, or shows another. */
static const char *kernel_log(void) {
  static char log[1 << 17];
  int length = klogctl(SYSLOG_ACTION_READ_ALL, log, sizeof log - 1);
  if (length < 0) return "refused";
  log[length] = 0;
  char *end = strchr(log, '\n');
  if (end != NULL) *end = 0;
  return strstr(log, "Starting gVisor...") != NULL ? NULL : "of another kernel";
}

/* Only gVisor's procfs has this entry, and nothing can be made in a procfs from outside. */
static const char *process_files(void) {
  int file = open("/proc/sentry-meminfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return "of another kernel";
  struct statfs about;
  int failed = fstatfs(file, &about);
  close(file);
  return failed == 0 && about.f_type == PROC_SUPER_MAGIC ? NULL : "covered by something else";
}

/* Every Linux since 3.1 grants this to everybody; gVisor does not know it. */
static const char *personalities(void) {
  if (personality(UNAME26) != -1) return "of another kernel";
  return errno == EINVAL ? NULL : "refused";
}

static int attest(void) {
  const struct {
    const char *name;
    const char *(*wrong)(void);
  } signs[] = {{"log", kernel_log}, {"process files", process_files}, {"personalities", personalities}};
  const int count = sizeof signs / sizeof signs[0];

  struct utsname kernel; /* Asked first: a personality may change the answer. */
  if (uname(&kernel) != 0) strcpy(kernel.release, "unknown");

  char found[256] = "";
  for (int i = 0; i < count; i++) {
    const char *wrong = signs[i].wrong();
    if (wrong == NULL) continue;
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s%s %s", used > 0 ? ", " : "", signs[i].name, wrong);
  }
  if (found[0] == 0) return IN_GVISOR;
  fprintf(stderr, "not in gVisor (kernel %.65s): %s\n", kernel.release, found);
  return NOT_IN_GVISOR;
}

static void end(int signal) {
  (void)signal;
  _exit(0);
}

int main(int count, char **arguments) {
  const char *act = count > 1 ? arguments[1] : "";
  int proves = strcmp(act, "prove") == 0;
  if (proves || strcmp(act, "listen") == 0) {
    signal(SIGTERM, end);
    return (proves ? walls_prove : walls_listen)(count - 2, arguments + 2);
  }
  if (count > 1 && act[0] != '+' && act[0] != '-') {
    fputs("usage: attest [TARGET...] | attest prove TARGET... | attest listen PORT...\n", stderr);
    return MISUSED;
  }
  int found = attest();
  return found == IN_GVISOR ? walls_await(count - 1, arguments + 1) : found;
}
