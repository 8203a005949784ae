/**
 * Tests what can be reached from a place: a program for the perl of the image and of the node alike, so that pod and
 * node can be compared. Its arguments are targets: `tcp HOST PORT`, `udp HOST PORT`, `icmp HOST`, `name HOST`.
 */
export const REACH: readonly string[] = [
  'perl',
  '-e',
  String.raw`
use strict; use Socket;
$| = 1;
my @children;
for my $target (@ARGV) {
  my $child = fork() // die "fork: $!";
  if (!$child) { my $how = eval { reach(split / /, $target) } // $@; chomp $how; print "$target\t$how\n"; exit }
  push @children, $child;
}
waitpid $_, 0 for @children;

sub reach {
  my ($kind, $host, $port) = @_;
  if ($kind eq 'name') { return defined(gethostbyname $host) ? 'known' : 'unknown' }
  my $to = pack_sockaddr_in($port // 0, inet_aton($host));
  local $SIG{ALRM} = sub { die "silence\n" };
  alarm 3;
  if ($kind eq 'tcp') {
    socket(my $s, PF_INET, SOCK_STREAM, 6) or return "no socket: $!";
    return connect($s, $to) ? 'connected' : "$!";
  }
  if ($kind eq 'udp') {
    socket(my $s, PF_INET, SOCK_DGRAM, 17) or return "no socket: $!";
    connect($s, $to) or return "$!";
    # Who is kubernetes.default.svc.cluster.local? An echo answers that, and so does a DNS server.
    my $name = join '', map { pack('C/a', $_) } qw(kubernetes default svc cluster local), '';
    send($s, pack('n6', 4660, 256, 1, 0, 0, 0) . $name . pack('n2', 1, 1), 0) // return "$!";
    return defined(recv($s, my $answer, 2048, 0)) ? 'answered' : "$!";
  }
  my $raw = !socket(my $s, PF_INET, SOCK_DGRAM, 1);
  if ($raw) { socket($s, PF_INET, SOCK_RAW, 1) or return "no socket: $!" }
  my $ping = sub { pack('C2 n3', 8, 0, $_[0], $$ & 0xffff, 1) . 'space???' };
  my $sum = 0;
  $sum += $_ for unpack 'n*', $ping->(0);
  $sum = ($sum & 0xffff) + ($sum >> 16) for 1, 2;
  send($s, $ping->(~$sum & 0xffff), 0, $to) // return "$!";
  while (1) {
    recv($s, my $answer, 2048, 0) // return "$!";
    $answer = substr $answer, 4 * (ord($answer) & 15) if $raw;
    return 'answered' if ord($answer) == 0 && $answer =~ /space\?\?\?$/;
  }
}
`,
];

/** How each target ended, from the output of the program. */
export function reached(printed: string): Readonly<Record<string, string>> {
  const lines = printed.split('\n').filter((line) => line !== '');
  return Object.fromEntries(lines.map((line) => line.split('\t')));
}
