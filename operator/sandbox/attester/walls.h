/* Whether network policies hold where this runs: what is forbidden is not met while what is allowed is. */
enum { WALLS_STAND = 0, WALLS_MISUSED = 2, WALLS_OPEN = 3, WALLS_UNPROVEN = 4 };

/*
 * Targets are "+NAME=ADDRESS:PORT", which must be met, and "-NAME=ADDRESS:PORT", which must not; "ADDRESS,ADDRESS" is
 * several, "PORT/udp" is a port that a question of DNS is sent to. What is wrong is told on the standard error stream.
 */

/* Patiently, for the record of a node: all that must be met is met, twice, and nothing else for a second after it. */
int walls_prove(int count, char **targets);

/* In milliseconds, in each pod before tenant code: a network plugin may open a pod first and close it later. */
int walls_await(int count, char **targets);

/* The canary: takes every connection on these ports and ends it, or with "/udp" sends every question back. */
int walls_listen(int count, char **ports);
