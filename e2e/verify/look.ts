import type { Outcome } from './matrix.ts';

/**
 * Tries targets again and again from its first instruction on, often at first, then at longer intervals, until each
 * target that is wanted (`+`) was reached and four times as long has passed, in which an open connection to the
 * others would have answered on this machine, too. It prints the best result of each target. It is in perl, which
 * starts at once and is in every Debian. Arguments: seconds at least, seconds at most, then targets, several with
 * commas between: `tcp HOST PORT`, `udp HOST PORT`, `icmp HOST`; over UDP it sends a DNS query for
 * kubernetes.default.svc.cluster.local, which a DNS server answers. With LISTEN it accepts connections at that port,
 * of both address families, and continues to do so afterwards. If the kernel gives it no socket for a protocol, the
 * result is `unable`.
 */
export const TRY_TARGETS = String.raw`
use strict; use Socket qw(:DEFAULT :addrinfo inet_pton pack_sockaddr_in6 AF_INET6); use Fcntl; use POSIX ();
$| = 1;
$SIG{TERM} = sub { exit };
$SIG{PIPE} = 'IGNORE';
sub now { (POSIX::times())[0] / 100 }
my $door;
if (my $port = $ENV{LISTEN}) {
  my $at = sub {
    socket($door, $_[0], SOCK_STREAM, 6) or return;
    setsockopt($door, SOL_SOCKET, SO_REUSEADDR, 1);
    setsockopt($door, 41, 26, 0);
    bind($door, $_[1]);
  };
  $at->(AF_INET6, pack_sockaddr_in6($port, "\0" x 16)) or $at->(PF_INET, pack_sockaddr_in($port, INADDR_ANY)) or die "bind: $!";
  listen($door, 128);
}
my ($least, $most) = splice @ARGV, 0, 2;
my @rank = qw(unable silence unreachable refused connected);
my %rank = map { $rank[$_] => $_ } 0 .. $#rank;
my @targets = map {
  my $wanted = s/^\+//;
  my ($kind, $host, $port) = split / /;
  { text => $_, wanted => $wanted, kind => $kind, host => $host, port => $port // 0, seen => 'unable', tried => 0, next => 0 }
} split /,/, join ',', @ARGV;
sub saw { my ($t, $seen) = @_; $t->{seen} = $seen if $rank{$seen} > $rank{$t->{seen}}; $t->{at} //= now() if $seen eq 'connected' }
sub ended { my $e = shift; $e == POSIX::ECONNREFUSED ? 'refused' : $e == POSIX::EINTR ? 'silence' : 'unreachable' }
sub call {
  my $t = shift;
  my $six = $t->{host} =~ /:/;
  my $family = $six ? AF_INET6 : PF_INET;
  my $to = $six ? pack_sockaddr_in6($t->{port}, inet_pton(AF_INET6, $t->{host})) : pack_sockaddr_in($t->{port}, inet_aton($t->{host}));
  my $s;
  if ($t->{kind} eq 'icmp') {
    my $number = $six ? 58 : 1;
    socket($s, $family, SOCK_DGRAM, $number) or socket($s, $family, SOCK_RAW, $number) or return;
  } elsif ($t->{kind} eq 'tcp') { socket($s, $family, SOCK_STREAM, 6) or return }
  else { socket($s, $family, SOCK_DGRAM, 17) or return }
  fcntl($s, F_SETFL, O_NONBLOCK);
  $t->{tried}++;
  saw($t, 'silence');
  if ($t->{kind} eq 'tcp') {
    if (connect($s, $to)) { saw($t, 'connected'); return }
    if ($! != POSIX::EINPROGRESS) { saw($t, ended(0 + $!)); return }
  } elsif ($t->{kind} eq 'udp') {
    connect($s, $to) or do { saw($t, ended(0 + $!)); return };
    my $name = join '', map { pack('C/a', $_) } qw(kubernetes default svc cluster local), '';
    defined send($s, pack('n6', 4660, 256, 1, 0, 0, 0) . $name . pack('n2', 1, 1), 0) or do { saw($t, ended(0 + $!)); return };
  } else {
    my $ping = sub { pack('C2 n3', $six ? 128 : 8, 0, $_[0], 4660, 1) . 'space???' };
    my $sum = 0;
    $sum += $_ for unpack 'n*', $ping->(0);
    $sum = ($sum & 0xffff) + ($sum >> 16) for 1, 2;
    defined send($s, $ping->($six ? 0 : ~$sum & 0xffff), 0, $to) or do { saw($t, ended(0 + $!)); return };
  }
  return { s => $s, t => $t, at => now() };
}
sub hear {
  my $o = shift;
  my $t = $o->{t};
  if ($t->{kind} eq 'tcp') {
    my $e = unpack 'i', getsockopt($o->{s}, SOL_SOCKET, SO_ERROR);
    saw($t, $e ? ended($e) : 'connected');
    return 1;
  }
  my $got = recv($o->{s}, my $answer, 2048, 0);
  if (!defined $got) { return 0 if $! == POSIX::EAGAIN; saw($t, ended(0 + $!)); return 1 }
  return 0 if $t->{kind} eq 'icmp' && $answer !~ /space\?\?\?$/;
  saw($t, 'connected');
  return 1;
}
my $start = now();
my @open;
while (1) {
  my $now = now();
  my $took = $now - $start;
  my @late = grep { $_->{wanted} && !$_->{at} } @targets;
  my ($last) = sort { $b <=> $a } map { $_->{at} // () } grep { $_->{wanted} } @targets;
  last if $took >= $most || ($took >= $least && !@late && $took >= 1 + 4 * (($last // $start) - $start));
  for my $t (@targets) {
    next if $t->{seen} eq 'connected' || $t->{next} > $now;
    $t->{next} = $now + ($took < 2 ? 0.1 : 0.7);
    my $o = call($t);
    push @open, $o if $o;
  }
  my ($out, $in) = ('', '');
  for my $o (@open) { vec($o->{t}{kind} eq 'tcp' ? $out : $in, fileno $o->{s}, 1) = 1 }
  my ($r, $w) = ($in, $out);
  select($r, $w, undef, 0.02) >= 0 or ($r, $w) = ('', '');
  @open = grep {
    my $bit = fileno $_->{s};
    my $ended = (vec($r, $bit, 1) || vec($w, $bit, 1)) && hear($_);
    !$ended && $now - $_->{at} < ($took < 2 ? 0.5 : 2);
  } @open;
}
printf "%s\t%s\t%d\t%s\n", $_->{text}, $_->{seen}, $_->{tried}, defined $_->{at} ? int(1000 * ($_->{at} - $start)) : '-' for @targets;
print "done\n";
if ($door) { my $guest; while (1) { accept($guest, $door) and close $guest } }
`.replace(/^ +/gm, '');

export interface TargetResult {
  readonly seen: Outcome;
  readonly tried: number;
}

const SEEN: readonly string[] = [
  'connected',
  'refused',
  'unreachable',
  'silence',
  'unable',
] satisfies Outcome[];
const isSeen = (text: string | undefined): text is Outcome => text !== undefined && SEEN.includes(text);

/** The program's results by target; undefined until it has finished. */
export function resultsIn(printed: string): ReadonlyMap<string, TargetResult> | undefined {
  const lines = printed.split('\n');
  if (!lines.includes('done')) return undefined;
  return new Map(
    lines.flatMap((line): [string, TargetResult][] => {
      const [target, seen, tried] = line.split('\t');
      return target !== undefined && isSeen(seen) ? [[target, { seen, tried: Number(tried) }]] : [];
    }),
  );
}
