#include "walls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 32, TEXT = 120 };

/* A network plugin that opens everything first and closes it later gets this long; a target that still answers then is reported. */
enum { LATE_MS = 10000 };

struct target {
  char text[TEXT]; /* the text in the message: its name and its address */
  bool wanted;
  bool datagrams; /* asked over UDP, as a DNS server is */
  struct sockaddr_storage address;
  socklen_t length;
  int socket;
  bool met;
};

struct patience {
  int longest; /* of one round, in milliseconds */
  int settle;  /* how long the forbidden ones have, at least, after the last allowed one has answered */
};

static long now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static void pause_ms(int ms) {
  poll(NULL, 0, ms);
}

static bool place(struct target *target, const char *address, int port) {
  struct sockaddr_in *four = (struct sockaddr_in *)&target->address;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)&target->address;
  if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    target->length = sizeof *four;
    return true;
  }
  if (inet_pton(AF_INET6, address, &six->sin6_addr) != 1) return false;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(port);
  target->length = sizeof *six;
  return true;
}

static int read_port(const char *text) {
  char *end;
  long port = strtol(text, &end, 10);
  return *text != 0 && *end == 0 && port > 0 && port < 65536 ? (int)port : 0;
}

/*
 * What a DNS server is asked, each in a datagram of its own: how it is (opcode 2, which CoreDNS and Unbound refuse at once),
 * which version it is (which dnsmasq knows), and which server has the root. For what they do not know themselves they ask
 * a server above them, and where that is away they answer too late to be heard. Whoever else listens need only send one back,
 * marked as an answer.
 */
enum { LONGEST = 30 };
static const struct {
  unsigned char text[LONGEST];
  size_t size;
} questions[] = {
    {{0, 1, 0x10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}, 17},
    {{0, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 4, 'b', 'i', 'n', 'd', 0, 0, 16, 0, 3}, 30},
    {{0, 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}, 17},
};
enum { QUESTIONS = sizeof questions / sizeof *questions, FLAGS = 2, IS_ANSWER = 0x80 };

/* Removes the protocol after the port and returns whether it is known. */
static bool read_protocol(char *port, bool *datagrams) {
  char *protocol = strchr(port, '/');
  *datagrams = protocol != NULL;
  if (protocol == NULL) return true;
  *protocol++ = 0;
  return strcmp(protocol, "udp") == 0;
}

/* Adds the targets of one argument, which it takes apart; false where it cannot be read. */
static bool add(struct target *targets, int *count, char *argument) {
  char *name = argument + 1;
  char *addresses = strchr(argument, '=');
  char *port = strrchr(argument, ':');
  if ((*argument != '+' && *argument != '-') || addresses == NULL || port == NULL || port < addresses) return false;
  *addresses++ = 0;
  *port++ = 0;
  bool datagrams;
  if (!read_protocol(port, &datagrams)) return false;
  int number = read_port(port);
  if (number == 0) return false;
  char *rest;
  for (char *one = strtok_r(addresses, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
    if (*count == MOST) return false;
    struct target *target = &targets[*count];
    memset(target, 0, sizeof *target);
    target->wanted = *argument == '+';
    target->datagrams = datagrams;
    if (!place(target, one, number)) return false;
    snprintf(target->text, sizeof target->text, "%.50s (%.45s %s %d)", name, one, datagrams ? "UDP port" : "port", number);
    (*count)++;
  }
  return true;
}

static bool read_targets(struct target *targets, int *count, int arguments, char **texts) {
  *count = 0;
  for (int i = 0; i < arguments; i++) {
    char text[256];
    snprintf(text, sizeof text, "%s", texts[i]);
    int before = *count;
    if (add(targets, count, text) && *count > before) continue;
    fprintf(stderr, "no target: %.200s\n", texts[i]);
    return false;
  }
  return true;
}

/* Starts a connection, or sends the queries; a target that fails at once was not reached. */
static void call(struct target *target) {
  int type = target->datagrams ? SOCK_DGRAM : SOCK_STREAM;
  target->met = false;
  target->socket = socket(target->address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (target->socket < 0) return;
  bool connected = connect(target->socket, (struct sockaddr *)&target->address, target->length) == 0;
  if (target->datagrams) {
    bool asked = false;
    for (int i = 0; connected && i < QUESTIONS; i++)
      if (send(target->socket, questions[i].text, questions[i].size, 0) > 0) asked = true;
    if (asked) return;
  } else {
    if (!connected && errno == EINPROGRESS) return;
    target->met = connected;
  }
  close(target->socket);
  target->socket = -1;
}

static bool has_answered(const struct target *target) {
  unsigned char answer[512];
  return recv(target->socket, answer, sizeof answer, MSG_DONTWAIT) > FLAGS && (answer[FLAGS] & IS_ANSWER) != 0;
}

static bool has_connected(const struct target *target) {
  int problem = 0;
  socklen_t length = sizeof problem;
  return getsockopt(target->socket, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0;
}

static void hear(struct target *target) {
  target->met = target->datagrams ? has_answered(target) : has_connected(target);
  close(target->socket);
  target->socket = -1;
}

static bool all_wanted_met(const struct target *targets, int count) {
  for (int i = 0; i < count; i++)
    if (targets[i].wanted && !targets[i].met) return false;
  return true;
}

/*
 * Calls all at the same moment. The allowed ones are the clock: once they have answered, an open way to the others would
 * have answered in about the same time, on this machine and under its load. True when they have.
 */
static bool call_all(struct target *targets, int count, struct patience patience) {
  long started = now_ms(), until = started + patience.longest;
  bool clocked = false, timed = false;
  for (int i = 0; i < count; i++) timed = timed || targets[i].wanted;
  for (int i = 0; i < count; i++) call(&targets[i]);
  for (;;) {
    long now = now_ms();
    if (timed && !clocked && all_wanted_met(targets, count)) {
      long took = now - started;
      clocked = true;
      until = now + (3 * took > patience.settle ? 3 * took : patience.settle);
    }
    if (now >= until) break;
    struct pollfd waits[MOST];
    int whose[MOST], waiting = 0;
    for (int i = 0; i < count; i++) {
      if (targets[i].socket < 0) continue;
      waits[waiting] = (struct pollfd){.fd = targets[i].socket, .events = targets[i].datagrams ? POLLIN : POLLOUT};
      whose[waiting++] = i;
    }
    poll(waits, waiting, until - now);
    for (int i = 0; i < waiting; i++)
      if (waits[i].revents != 0) hear(&targets[whose[i]]);
  }
  for (int i = 0; i < count; i++) {
    if (targets[i].socket >= 0) close(targets[i].socket);
    targets[i].socket = -1;
  }
  return clocked;
}

/* Prints which targets of a kind were reached, or were not; false if there are none. */
static bool tell(const char *what, const struct target *targets, int count, bool wanted, bool met, bool aloud) {
  bool any = false;
  for (int i = 0; i < count; i++) {
    if (targets[i].wanted != wanted || targets[i].met != met) continue;
    if (aloud) fprintf(stderr, "%s%s", any ? ", " : what, targets[i].text);
    any = true;
  }
  if (any && aloud) fputc('\n', stderr);
  return any;
}

static bool open_ways(const struct target *targets, int count, bool aloud) {
  return tell("reached: ", targets, count, false, true, aloud);
}

int walls_prove(int arguments, char **texts) {
  static struct target targets[MOST];
  const struct patience patience = {.longest = 3000, .settle = 1000};
  enum { ROUNDS = 2, UNPROVEN_MS = 20000 };
  int count, good = 0;
  if (!read_targets(targets, &count, arguments, texts)) return WALLS_MISUSED;
  for (long started = now_ms(); good < ROUNDS;) {
    bool clocked = call_all(targets, count, patience);
    long took = now_ms() - started;
    if (open_ways(targets, count, false)) {
      if (took >= LATE_MS) return open_ways(targets, count, true), WALLS_OPEN;
      good = 0;
    } else if (clocked) {
      good++;
      continue;
    } else if (took >= UNPROVEN_MS) {
      tell("not reached: ", targets, count, true, false, true);
      return WALLS_UNPROVEN;
    }
    pause_ms(200);
  }
  return WALLS_STAND;
}

int walls_await(int arguments, char **texts) {
  static struct target targets[MOST];
  const struct patience patience = {.longest = 1000, .settle = 5};
  /* A pod's network may begin between two calls of one round, and the later call be answered alone. */
  enum { ROUNDS = 2 };
  int count, good = 0;
  if (!read_targets(targets, &count, arguments, texts)) return WALLS_MISUSED;
  if (count == 0) return WALLS_STAND;
  for (long started = now_ms(); good < ROUNDS;) {
    bool clocked = call_all(targets, count, patience);
    bool late = now_ms() - started >= LATE_MS;
    if (open_ways(targets, count, false)) {
      if (late) return open_ways(targets, count, true), WALLS_OPEN;
      good = 0;
    } else if (clocked) {
      good++;
      continue;
    } else if (late) {
      break; /* The allowed target is unavailable, so the silence of all others for this time has to suffice. */
    }
    pause_ms(20);
  }
  return WALLS_STAND;
}

/* A socket at a port, of both families where there are two; -1 where there can be none. */
static int at_port(int port, int type) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
  int on = 1, off = 0, both = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (both >= 0) {
    setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(both, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(both, (struct sockaddr *)&six, sizeof six) == 0) return both;
    close(both);
  }
  int one = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (one < 0) return -1;
  setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(one, (struct sockaddr *)&four, sizeof four) == 0) return one;
  close(one);
  return -1;
}

static int listener(char *text, bool *datagrams) {
  if (!read_protocol(text, datagrams)) return -1;
  int port = read_port(text);
  if (port == 0) return -1;
  int door = at_port(port, *datagrams ? SOCK_DGRAM : SOCK_STREAM);
  if (door < 0 || *datagrams || listen(door, SOMAXCONN) == 0) return door;
  close(door);
  return -1;
}

static void take_connection(int door) {
  int guest = accept(door, NULL, NULL);
  if (guest >= 0) close(guest);
}

/* An answer is never answered, since two canaries would never stop. It is as long as the query, so it amplifies nothing. */
static void answer(int door) {
  unsigned char said[LONGEST];
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  ssize_t size = recvfrom(door, said, sizeof said, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
  if (size <= FLAGS || (said[FLAGS] & IS_ANSWER) != 0) return;
  said[FLAGS] |= IS_ANSWER;
  sendto(door, said, size, MSG_DONTWAIT, (struct sockaddr *)&from, length);
}

int walls_listen(int count, char **ports) {
  struct pollfd doors[MOST];
  bool datagrams[MOST];
  if (count < 1 || count > MOST) return WALLS_MISUSED;
  for (int i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof text, "%s", ports[i]);
    doors[i] = (struct pollfd){.fd = listener(text, &datagrams[i]), .events = POLLIN};
    if (doors[i].fd >= 0) continue;
    fprintf(stderr, "no port to listen on: %.20s\n", ports[i]);
    return WALLS_MISUSED;
  }
  for (;;) {
    poll(doors, count, -1);
    for (int i = 0; i < count; i++) {
      if ((doors[i].revents & POLLIN) == 0) continue;
      (datagrams[i] ? answer : take_connection)(doors[i].fd);
    }
  }
}
