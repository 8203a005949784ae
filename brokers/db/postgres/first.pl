# Runs a program as the child of a container's first process, which this is: it passes signals on to the program, and ends as
# the program does. Linux gives the first process what others leave behind, such as pgBackRest's process that archives the
# server's log, or what a probe had begun when its time was over. PostgreSQL would take these for processes of its own, and
# where one ends with an error it would end all sessions and recover.
use strict;
use warnings;
use POSIX ();

my $signals = POSIX::SigSet->new(POSIX::SIGHUP, POSIX::SIGINT, POSIX::SIGQUIT, POSIX::SIGTERM);
# None that comes before there is a program is lost.
POSIX::sigprocmask(POSIX::SIG_BLOCK, $signals);
my $program = fork // die "first: cannot begin a process: $!\n";
if ($program == 0) {
  POSIX::sigprocmask(POSIX::SIG_UNBLOCK, $signals);
  exec { $ARGV[0] } @ARGV or POSIX::_exit(127);
}
for my $signal (qw(HUP INT QUIT TERM)) {
  $SIG{$signal} = sub { kill $signal, $program };
}
POSIX::sigprocmask(POSIX::SIG_UNBLOCK, $signals);
while ((my $ended = wait) != -1) {
  exit($? & 127 ? 128 + ($? & 127) : $? >> 8) if $ended == $program;
}
