# Prints how a restore reaches a moment: the copy that it begins with, the timeline that it follows, and from which file of the
# log on it follows each timeline.
#   way.pl SECONDS PROGRAM…     SECONDS since 1970, or empty for the end; PROGRAM is pgBackRest with its options
#   way.pl missing PROGRAM…     the first file that the way to the end lacks, while it has later ones
# Each restore begins a timeline, and what an earlier timeline has beyond that point is on no later one. A moment was on the
# timeline that was current then. PostgreSQL by itself would follow the latest one, and there such a moment would silently be
# that of the restore before. A copy with damaged pages is taken only if no earlier one leads there: the log has what came after.
use strict;
use warnings;
use JSON::PP;

my ($asked, @program) = @ARGV;
my $moment = $asked eq 'missing' ? '' : $asked;

sub ask {
  open(my $answer, '-|', @program, @_) or die "way: $program[0]: $!\n";
  local $/;
  my $text = <$answer>;
  close $answer or exit 1;
  return $text;
}
sub position { my ($high, $low) = split m{/}, shift; return (hex($high) << 32) + hex $low }

my ($stanza) = @{ decode_json(ask('--output=json', 'info')) };
my @copies = grep { $moment eq '' || $_->{timestamp}{stop} <= $moment } @{ $stanza->{backup} };
die "the backup has no copy of the database that is as old as that\n" unless @copies;
my $database = $copies[-1]{database}{id};
my ($archive) = map { "archive/space/$_->{id}" } grep { $_->{database}{id} == $database } @{ $stanza->{archive} };
$_->{timeline} = hex substr($_->{archive}{start}, 0, 8) for @copies, @{ $stanza->{backup} };

# When each timeline began, and where it left the ones before it. The history of a server that was restored before histories were
# archived may be younger than a copy of it, or missing.
my (%began, %left);
for my $copy (grep { $_->{database}{id} == $database } @{ $stanza->{backup} }) {
  my ($of, $start) = ($copy->{timeline}, $copy->{timestamp}{start});
  $began{$of} = $start unless defined $began{$of} && $began{$of} < $start;
}
my $files = decode_json(ask('--output=json', 'repo-ls', $archive));
for my $name (grep { /^[0-9A-F]{8}\.history$/ } keys %$files) {
  my ($of, $put) = (hex substr($name, 0, 8), $files->{$name}{time});
  $began{$of} = $put unless defined $began{$of} && $began{$of} < $put;
  my $history = ask('repo-get', "$archive/$name");
  $left{$of}{$1} = position($2) while $history =~ m{^(\d+)\t([0-9A-F]+/[0-9A-F]+)}mg;
}

my @timelines = sort { $a <=> $b } keys %began, map { keys %$_ } values %left;
my $last = $timelines[0];
for my $of (keys %began) { $last = $of if $of > $last && ($moment eq '' || $began{$of} <= $moment) }
my $left = $left{$last} // {};

my @leading = grep {
  my $of = $_->{timeline};
  $_->{database}{id} == $database
    && ($of == $last || defined $left->{$of} && position($_->{lsn}{stop}) <= $left->{$of});
} reverse @copies;
die "the database was restored before that moment, and the backup has no copy that leads to it\n" unless @leading;

my ($from, @way) = (0);
for my $of (sort { $a <=> $b } keys %$left) {
  push @way, [$of, $from];
  $from = $left->{$of} >> 24;
}
push @way, [$last, $from];
if ($asked eq 'missing') {
  print missing($leading[0]);
  exit;
}
my $copy = $leading[0];
if ($copy->{error}) {
  my ($whole) = grep { !$_->{error} } @leading;
  my $is_whole = $whole && missing($whole, $copy) eq '';
  my $from = $is_whole ? "a restore begins with $whole->{label}" : 'a restore brings them back, since no earlier copy leads past it';
  print STDERR "way: $copy->{label} has damaged pages; $from\n";
  $copy = $whole if $is_whole;
}
my $target = $copy->{timeline} == $last ? 'current' : $last;
print "$copy->{label} $target ", join(' ', map { join ':', @$_ } @way), "\n";

# The first file that is missing between a copy and the begin of a later one, or the last file on the way. The segments have 16 MiB,
# 256 a directory.
sub missing {
  my ($since, $until) = @_;
  my @stretches = reverse @way;
  my $timeline_at = sub { my $number = shift; (grep { $_->[1] <= $number } @stretches)[0][0] };
  my $first_of = sub { my $name = shift->{archive}{start}; return hex(substr $name, 8, 8) * 256 + hex substr $name, 16 };
  my $first = $first_of->($since);
  my %there;
  for my $directory (grep { /^[0-9A-F]{16}$/ && hex(substr $_, 8) >= $first >> 8 } keys %$files) {
    for my $name (keys %{ decode_json(ask('--output=json', 'repo-ls', "$archive/$directory")) }) {
      next unless $name =~ /^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})-[0-9a-f]{40}/;
      my $number = hex($2) * 256 + hex $3;
      $there{$number} = 1 if $number >= $first && hex $1 == $timeline_at->($number);
    }
  }
  my ($end) = sort { $b <=> $a } keys %there;
  $end = $first_of->($until) if $until;
  for my $number ($first .. $end // $first) {
    return sprintf "%08X%08X%08X\n", $timeline_at->($number), $number >> 8, $number & 255 unless $there{$number};
  }
  return '';
}
