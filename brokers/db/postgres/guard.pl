# Protects the server against its tenants where PostgreSQL and the broker's watch cannot. Twice a second it checks the
# server's processes, and ends those of tenants that endanger the others with SIGTERM, as pg_terminate_backend does. SIGKILL
# restarts the server for everybody, so it is used rarely, for a session that ignores SIGTERM and blocks all drops. Checks
# that must work while nobody can log in do not query the server. Processes of tenants are recognised by their titles; of
# others only those are ended that have not logged in.
use strict;
use warnings;
use List::Util qw(min sum0);
use POSIX ();

my $ticks = POSIX::sysconf(POSIX::_SC_CLK_TCK());
my ($data, $sockets, $port, $programs) = @ARGV;
my $server = getppid();
my $questions = $0 =~ s/\.pl$/.sql/r;
my $per_address = $ENV{LOGINS_PER_ADDRESS} // 20;
# Each process that logs in occupies a connection slot, so at most a third of the slots may be occupied in this way.
my $login_slots = ($ENV{MAX_CONNECTIONS} or die "guard: MAX_CONNECTIONS is not set\n") / 3;
my $reserve_kib = ($ENV{DISK_RESERVE_MIB} // 256) * 1024;
my $reserve_files = $ENV{DISK_RESERVE_FILES} // 20_000;
my $session_kib = $ENV{SESSION_MEMORY_KIB} // 131_072;
my $psql = $ENV{PSQL} // "$programs/psql";
my $cgroup = $ENV{CGROUP_DIRECTORY} // '/sys/fs/cgroup';
my $analyze_seconds = $ENV{ANALYZE_SECONDS} // 60;
my $deaf_seconds = $ENV{DEAF_SECONDS} // 60;
# The shortest time between two restarts; 0 means no restarts.
my $restart_hours = $ENV{RESTART_HOURS} // 6;
# A tenant whose processor time exceeds this gets a lower priority; time counts half as much after ten seconds. 0 turns this off.
my $busy_seconds = $ENV{BUSY_SECONDS} // 2;
my $fading = 0.5 ** (1 / 20);
# The nice value of its processes, which get a tenth of the processor time of others when both want all of it. They keep it for
# their lifetime, since only root may raise a priority; it costs nothing while processors are free.
my $yielding = 10;
# A dump by parallel jobs exports one snapshot.
my $most_snapshots = 256;
# The share of the container's memory limit at which the guard acts, before the kernel kills the container.
my $full = 0.85;

sub content {
  my ($path) = @_;
  open(my $file, '<', $path) or return '';
  local $/;
  return <$file> // '';
}

# Returns the remote address of each TCP connection, by the inode of its socket.
sub peers {
  my %peer;
  for my $table ('tcp', 'tcp6') {
    for (split /\n/, content("/proc/net/$table")) {
      my (undef, $local, $remote, undef, undef, undef, undef, undef, undef, $inode) = split ' ';
      $peer{$inode} = $remote =~ s/:[0-9A-F]+$//r if defined $inode && $remote =~ /^[0-9A-F]+:/;
    }
  }
  return \%peer;
}

sub address {
  my ($pid, $peer) = @_;
  for (glob "/proc/$pid/fd/*") {
    my $socket = readlink($_) // next;
    return $peer->{$1} if $socket =~ /^socket:\[(\d+)\]$/ && exists $peer->{$1};
  }
  return undef;
}

sub look {
  my (@tenants, @entering, %helpers, $checkpointer, $barred);
  for my $pid (split ' ', content("/proc/$server/task/$server/children")) {
    my $title = content("/proc/$pid/cmdline") =~ s/\0.*//sr;
    # Whoever has not logged in has chosen the names in its title, and may have taken the title of another process.
    if ($title !~ /^postgres: / || $title =~ /\(\d+\) (?:authentication|startup)/) {
      push @entering, $pid;
    } elsif ($title =~ /^postgres: (spc_[0-9a-f]{40}) \1 \S+\(\d+\) /) {
      push @tenants, { pid => $pid, role => $1 };
      $tenants[-1]{waits} = 1 if $title =~ / waiting$/;
    } elsif ($title =~ /^postgres: postgres postgres \[local\] (?:authentication|startup) waiting/) {
      $barred = 1;
    } elsif ($title =~ /^postgres: parallel worker for PID (\d+)/) {
      push @{ $helpers{$1} }, $pid;
    } elsif ($title =~ /^postgres: checkpointer/) {
      $checkpointer = $pid;
    }
  }
  $_->{helpers} = $helpers{ $_->{pid} } // [] for @tenants;
  return (\@tenants, \@entering, $checkpointer, $barred);
}

sub finish {
  my ($why, @processes) = @_;
  return unless @processes;
  kill 'TERM', map { $_->{pid} } @processes;
  my %of;
  $of{ $_->{role} }++ for @processes;
  print STDERR "guard: $why: ended " . join(', ', map {"$of{$_} of $_"} sort keys %of) . "\n";
}

sub crowds {
  my ($entering) = @_;
  return if @$entering <= $per_address;
  my $peer = peers();
  my %from;
  for (sort { $a <=> $b } @$entering) {
    my $address = address($_, $peer) // next;
    push @{ $from{$address} }, { pid => $_, role => "address $address" };
  }
  # The limit for each address is lowered until all of them together leave slots to others; one is always permitted.
  my $most = $per_address;
  $most-- while $most > 1 && sum0(map { min(scalar @$_, $most) } values %from) > $login_slots;
  # The first ones may still log in.
  finish('too many connections that have not logged in', splice(@$_, $most)) for grep { @$_ > $most } values %from;
}

sub memory {
  my ($tenants) = @_;
  my ($limit) = content("$cgroup/memory.max") =~ /^(\d+)/ or return;
  my %stat = map { split ' ', $_, 2 } split /\n/, content("$cgroup/memory.stat");
  return if ($stat{anon} // 0) + ($stat{shmem} // 0) + ($stat{slab_unreclaimable} // 0) <= $limit * $full;
  my $largest;
  for (@$tenants) {
    ($_->{kib}) = content("/proc/$_->{pid}/status") =~ /^RssAnon:\s*(\d+)/m;
    $largest = $_ if defined $_->{kib} && (!$largest || $_->{kib} > $largest->{kib});
  }
  finish('memory runs out', $largest) if $largest;
}

my %processor;

# Adds the processor time that each process used since the last check to its tenant. Processes that ended meanwhile are missed.
sub busy {
  my ($tenants) = @_;
  return unless $busy_seconds;
  my (%of, %now);
  for my $tenant (@$tenants) {
    for my $pid ($tenant->{pid}, @{ $tenant->{helpers} }) {
      # The name may contain anything, so fields are counted after it: user and system time are the 12th and 13th, nice is the 17th.
      my @stat = split ' ', content("/proc/$pid/stat") =~ s/.*\)//sr;
      next if @stat < 20;
      my $one = "$pid $stat[19]";
      my $spent = ($stat[11] + $stat[12]) / $ticks;
      my $since = $processor{spent}{$one} // 0;
      $now{$one} = $spent;
      $of{ $tenant->{role} }{used} += $spent - $since;
      push @{ $of{ $tenant->{role} }{busy} }, $pid if $spent - $since > 0.05 && $stat[16] < $yielding;
    }
  }
  my %late;
  for my $role (keys %of, keys %{ $processor{late} }) {
    my $late = ($of{$role}{used} // 0) + $fading * ($processor{late}{$role} // 0);
    $late{$role} = $late if $late > 0.01;
  }
  for my $role (grep { ($late{$_} // 0) > $busy_seconds } keys %of) {
    setpriority(0, $_, $yielding) for @{ $of{$role}{busy} };
  }
  %processor = (spent => \%now, late => \%late);
}

# The memory that a query shares with its parallel workers is a file, which counts for no process. Files that several sessions use are left out.
sub shared {
  my ($tenants) = @_;
  my %kib = map { $_ => (-s $_ // 0) / 1024 } glob "'$data/pg_dynshmem/mmap.*'";
  my $all = 0;
  $all += $_ for values %kib;
  return if $all <= $session_kib;
  my %users;
  for my $tenant (@$tenants) {
    my %used;
    for my $pid ($tenant->{pid}, @{ $tenant->{helpers} }) {
      $used{"$data/$_"} = 1 for content("/proc/$pid/maps") =~ m{(pg_dynshmem/mmap\.\d+)}g;
    }
    push @{ $users{$_} }, $tenant for keys %used;
  }
  for (keys %users) {
    my ($only, @more) = @{ $users{$_} };
    $only->{shared} += $kib{$_} // 0 unless @more;
  }
  finish('parallel workers share too much memory', grep { ($_->{shared} // 0) > $session_kib } @$tenants);
}

# An exported snapshot is a file until its transaction ends. Its name begins with the exporting backend, and its text has the process id.
sub snapshots {
  my ($tenants) = @_;
  opendir(my $directory, "$data/pg_snapshots") or return;
  my %of;
  /^(\w+-\w+)-\d+$/ and push @{ $of{$1} }, $_ for readdir $directory;
  my %many;
  for (grep { @$_ > $most_snapshots } values %of) {
    content("$data/pg_snapshots/$_->[0]") =~ /^pid:(\d+)$/m and $many{$1} = 1;
  }
  finish('too many snapshots', grep { $many{ $_->{pid} } } @$tenants);
}

# Returns the name of the database with the most files; undefined if the server cannot be asked for the name.
sub crowded {
  my ($most, $oid) = (0, undef);
  for my $path (glob "'$data/base/[0-9]*'") {
    opendir(my $directory, $path) or next;
    my $count = () = readdir $directory;
    ($most, $oid) = ($count, $path =~ s{.*/}{}r) if $count > $most;
  }
  return undef unless defined $oid && -x $psql;
  local @ENV{qw(QUERY PGCONNECT_TIMEOUT)} = ("SELECT datname FROM pg_database WHERE oid = $oid", 5);
  my $said = `LC_ALL=C '$psql' -XAtq -h '$sockets' -p '$port' -U postgres -d postgres -c "\$QUERY" 2>/dev/null`;
  return $said =~ /^(spc_[0-9a-f]{40})$/m ? $1 : undef;
}

sub files {
  my ($tenants) = @_;
  my (undef, $line) = split /\n/, `df -Pi '$data' 2>/dev/null`;
  my (undef, $all, undef, $free) = split ' ', $line // '';
  # Some file systems do not report a number of inodes.
  return unless ($all // '') =~ /^[1-9]\d*$/ && $free < $reserve_files;
  my $role = $free < $reserve_files / 2 ? undef : crowded();
  finish('the disk runs out of files', defined $role ? grep { $_->{role} eq $role } @$tenants : @$tenants);
}

sub disk {
  my ($tenants) = @_;
  my (undef, $line) = split /\n/, `df -Pk '$data' 2>/dev/null`;
  my (undef, undef, undef, $free) = split ' ', $line // '';
  return unless defined $free && $free < 2 * $reserve_kib;
  return finish('the disk runs full', @$tenants) if $free < $reserve_kib;
  my $role = sprawling($tenants);
  finish('temporary files fill the disk', grep { $_->{role} eq $role } @$tenants) if defined $role;
}

# Returns the tenant with the most temporary files, which count for no quota.
sub sprawling {
  my ($tenants) = @_;
  my %bytes;
  my %role = map { my $of = $_->{role}; map { $_ => $of } $_->{pid}, @{ $_->{helpers} } } @$tenants;
  for (glob "'$data/base/pgsql_tmp/pgsql_tmp*' '$data/base/pgsql_tmp/pgsql_tmp*/*'") {
    $bytes{ $role{$1} } += -s $_ // 0 if m{pgsql_tmp/pgsql_tmp(\d+)\.} && exists $role{$1};
  }
  my ($most) = sort { $bytes{$b} <=> $bytes{$a} } keys %bytes;
  return $most;
}

my %why = (
  session => 'its database is closed', worker => 'an analysis takes too long', vacuum => 'no autovacuum worker is left for other databases');

my (%first, %told, %barring);
my $restarted = 0;

sub overdue {
  my @lines = grep {/\|/} split /\n/, $_[0];
  my (%still, $deaf);
  for (@lines) {
    my ($kind, $pid, $database, $since, $waits) = split /\|/;
    my $one = "$pid $since";
    $still{$one} = 1;
    $first{$one} //= time;
    next if time - $first{$one} < ($kind eq 'session' ? 5 : $analyze_seconds);
    finish($why{$kind}, { pid => $pid, role => $database }) unless $told{$one};
    $told{$one} //= time;
    $deaf //= { pid => $pid, role => $database } if $waits eq 't' && time - $told{$one} >= $deaf_seconds;
  }
  for my $known (\%first, \%told) { delete @$known{ grep { !$still{$_} } keys %$known } }
  restart('drops wait for a session that does not end', $deaf) if $deaf;
}

sub restart {
  my ($why, $deaf) = @_;
  return unless $restart_hours && time - $restarted >= $restart_hours * 3600;
  $restarted = time;
  print STDERR "guard: $why: restarts the server because of 1 of $deaf->{role}\n";
  kill 'KILL', $deaf->{pid};
}

# The checkpointer begins while the server recovers, and then sleeps for checkpoint_timeout: until it wakes it ignores
# archive_timeout. The signal to reload its settings wakes it.
my $woken = 0;

sub wake {
  my ($checkpointer) = @_;
  return unless defined $checkpointer && $checkpointer != $woken;
  kill 'HUP', $checkpointer;
  $woken = $checkpointer;
}

# Statements of tenants that wait for an exclusive lock on a shared catalogue, though they are not permitted, let every login wait
# behind them. The broker's watch ends them, unless it could not log in before they began; only sessions that wait are to blame.
my $turns_barred = 0;

sub locks {
  my ($tenants, $barred) = @_;
  $turns_barred = $barred ? $turns_barred + 1 : 0;
  finish('nobody can log in', grep { $_->{waits} } @$tenants) if $turns_barred > 2;
}

# The question to the server that has no answer yet, and what was read of it. Nothing waits for the answer, since the login may wait.
my ($asking, $said);

sub ask {
  return if $asking || !-x $psql;
  local @ENV{qw(LC_ALL QUERY PGCONNECT_TIMEOUT PGOPTIONS)} = ('C', content($questions), 60, '-c statement_timeout=60s');
  $said = '';
  open($asking, '-|', "exec '$psql' -XAtq -h '$sockets' -p '$port' -U postgres -d postgres -c \"\$QUERY\" 2>&1") or undef $asking;
}

sub is_answered {
  vec(my $bits = '', fileno $asking, 1) = 1;
  while (select(my $ready = $bits, undef, undef, 0) > 0) {
    return 1 unless sysread $asking, $said, 65536, length $said;
  }
  return 0;
}

# A full lock table prevents every login, also that of the broker's watch after a restart.
sub hear {
  my ($tenants, $checkpointer) = @_;
  return unless $asking && is_answered();
  my $worked = close $asking;
  undef $asking;
  my $full = $said =~ /out of shared memory/;
  # A session that still exists after it was told to end is busy with its own clean-up and does not react to signals.
  my ($leaving) = grep { $full && $barring{ $_->{pid} } } @$tenants;
  restart('nobody can log in because of a session that does not end', $leaving) if $leaving;
  finish('nobody can log in', @$tenants) if $full;
  %barring = map { $_->{pid} => 1 } $full ? @$tenants : ();
  return unless $worked;
  wake($checkpointer);
  overdue($said);
}

for (my $turn = 0; getppid() == $server; $turn++) {
  my ($tenants, $entering, $checkpointer, $barred) = look();
  crowds($entering);
  memory($tenants);
  busy($tenants);
  shared($tenants);
  snapshots($tenants);
  disk($tenants) if $turn % 2 == 0;
  files($tenants) if $turn % 2 == 1;
  locks($tenants, $barred);
  ask() if $turn % 10 == 9;
  hear($tenants, $checkpointer);
  select(undef, undef, undef, 0.5);
}
