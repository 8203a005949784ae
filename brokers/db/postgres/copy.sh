#!/bin/sh
# Copies one database of a tenant into an empty one of the same name on another server, and compares the two. Standard
# input has their URLs, the source's first. It logs in as the tenant on both sides, so code that the tenant left in its
# database gets no further rights. Ends with 0 if both are equal.
set -eu
umask 077

LONGEST_SECONDS=${COPY_SECONDS:-14400}
work=$(mktemp -d)
watching=
finish() {
  [ -z "$watching" ] || kill "$watching" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
export PGSERVICEFILE="$work/services" PGCONNECT_TIMEOUT=10 PGAPPNAME=space-move

fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

# Runs a program and prints from its errors only which object failed and why. Details, contexts and statements may quote rows, so
# they are left out, as are values within a message.
quietly() {
  "$@" 2>"$work/complaints" && return
  sed -nE -e '/^(pg_dump|pg_restore|psql|ERROR|FATAL):/!d' \
    -e '/^[a-z_]+: (detail|hint): /{' -e '/: Error message from server: /!d' -e '}' \
    -e '/(ERROR|FATAL):  /!s/:  .*/: …/' \
    -e 's/((ERROR|FATAL):  [^"]*)".*"/\1…/' -e 's/((ERROR|FATAL):  [^"]*)".*/\1…/' \
    -e 's/0x[0-9a-f]{2}( 0x[0-9a-f]{2})*/…/g' -e p "$work/complaints" >&2
  return 1
}

# These override settings of the tenant's role, which could end a session or change how values are read and written.
OPTIONS='-c client_encoding=UTF8 -c standard_conforming_strings=on -c search_path=pg_catalog -c row_security=off
  -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=3 -c bytea_output=hex -c lc_monetary=C
  -c local_preload_libraries= -c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=60s
  -c idle_session_timeout=0'

# Passwords go into a service file, so that they are neither on a command line nor in an environment.
service() {
  read -r url
  rest=${url#postgresql://}
  user=${rest%%:*} rest=${rest#*:}
  password=${rest%%@*} rest=${rest#*@}
  address=${rest%%/*} rest=${rest#*/}
  host=${address%:*}
  host=${host#[} host=${host%]}
  printf '[%s]\nhost=%s\nport=%s\nuser=%s\npassword=%s\ndbname=%s\n' \
    "$1" "$host" "${address##*:}" "$user" "$password" "${rest%%\?*}"
  case $rest in *\?*) printf '%s\n' "${rest#*\?}" | tr '&' '\n' ;; esac
  printf 'options=%s\n' "$(echo $OPTIONS)"
}
{ service from && service to; } >"$PGSERVICEFILE"

# Prints the result of one statement. With -c and no input, psql reads none of its own commands from the statement.
ask() { psql -XAtq -v ON_ERROR_STOP=1 -d "service=$1" -c "$2" </dev/null; }

# The network may admit a new pod only a moment after its start.
for side in from to; do
  tries=0
  until ask $side "SELECT current_setting('server_version_num')::int / 10000" >"$work/$side.major" 2>"$work/said"; do
    tries=$((tries + 1))
    [ $tries -lt "${COPY_TRIES:-60}" ] || fail "cannot connect to the database $side: $(cat "$work/said")"
    sleep 0.5
  done
  # Earlier versions do not know this setting and would refuse the session.
  [ "$(cat "$work/$side.major")" -lt 17 ] ||
    sed -i "/^\[$side\]/,/^options=/s/^options=/&-c transaction_timeout=0 /" "$PGSERVICEFILE"
done

client=$(pg_dump --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
source=$(cat "$work/from.major")
target=$(cat "$work/to.major")
[ "$client" -eq "$target" ] && [ "$source" -le "$target" ] ||
  fail "pg_dump has version $client; it needs that of the target, $target, which may not be earlier than that of the source, $source"

extensions=$(ask from 'SELECT string_agg(quote_literal(extname), $$,$$) FROM pg_extension')
missing=$(ask to "SELECT string_agg(e, ', ') FROM unnest(ARRAY[$extensions]::text[]) e
  WHERE e NOT IN (SELECT name FROM pg_available_extensions)")
[ -z "$missing" ] || fail "the server lacks extensions that the database has: $missing"
# A dump contains CREATE EXTENSION without a version, so the target may get a later one, which has to know how to follow this one.
versions=$(ask from 'SELECT string_agg(format($$(%L, %L)$$, extname, extversion), $$,$$) FROM pg_extension')
earlier=$(quietly ask to "SELECT string_agg(concat(e.name, ' ', e.version), ', ') FROM (VALUES $versions) e (name, version)
  JOIN pg_available_extensions a ON a.name = e.name
  WHERE e.version <> coalesce(a.installed_version, a.default_version) AND NOT EXISTS (
    SELECT FROM pg_extension_update_paths(a.name) p
    WHERE p.source = e.version AND p.target = coalesce(a.installed_version, a.default_version) AND p.path IS NOT NULL)") ||
  fail 'the versions of extensions cannot be compared'
[ -z "$earlier" ] || fail "the server cannot continue with the version that an extension has: $earlier"
# The owner of an extension may add objects of its own to it, and a dump leaves all members out. Those of its script belong to
# a superuser, except a language.
added=$(ask from "SELECT string_agg(pg_describe_object(d.classid, d.objid, 0), ', ') FROM pg_depend d JOIN pg_shdepend s
    ON s.classid = d.classid AND s.objid = d.objid AND s.objsubid = 0 AND s.deptype = 'o'
  WHERE d.deptype = 'e' AND d.objsubid = 0 AND d.classid <> 'pg_language'::regclass
    AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND s.refclassid = 'pg_authid'::regclass AND s.refobjid = (SELECT oid FROM pg_roles WHERE rolname = current_user)")
[ -z "$added" ] || fail "a dump does not contain what was added to an extension; its Assistant has to ALTER EXTENSION … DROP it: $added"
hidden=$(ask from "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
  WHERE relrowsecurity AND relforcerowsecurity
    AND NOT (SELECT rolbypassrls FROM pg_roles WHERE rolname = current_user)")
[ -z "$hidden" ] || fail "rows are hidden from their owner, who has to ALTER TABLE … NO FORCE ROW LEVEL SECURITY: $hidden"

# No quota counts yet what functions of the tenant write during the restore, so the growth is limited here.
size() { ask "$1" 'SELECT pg_database_size(current_database())'; }
most=$(($(size from) * 2 + ${COPY_SPARE_BYTES:-268435456}))
# The sleep does not inherit the output: a reader of it would otherwise wait until a left-over sleep has ended.
while sleep 2 >/dev/null 2>&1; do
  now=$(size to 2>/dev/null) || continue
  [ "$now" -gt "$most" ] || continue
  echo "the copy has grown beyond $most bytes" >&2
  ask to "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()" >/dev/null || true
done &
watching=$!

# The dump is complete before the restore begins, since a session that waits for its client is terminated as soon as any drop
# waits for it. The restore is not one transaction, since its locks and its age are limited; an interrupted one is repeated.
quietly timeout "$LONGEST_SECONDS" pg_dump -d service=from -Fc --compress=1 --no-owner --file="$work/dump" ||
  fail 'the database cannot be dumped'
restore() { timeout "$LONGEST_SECONDS" pg_restore -d service=to --no-owner "$@" "$work/dump"; }
quietly restore --no-privileges --exit-on-error || fail 'the database cannot be restored'

# Grants to roles of other tenants cannot be repeated, and gave no access.
pg_restore --list "$work/dump" | grep -E '^[0-9]+; [0-9]+ [0-9]+ (DEFAULT )?ACL ' >"$work/grants" || true
if [ -s "$work/grants" ]; then
  restore --use-list="$work/grants" 2>"$work/said" || echo 'some grants were not copied' >&2
fi
rm "$work/dump"

# A role may set an extension's parameter, such as hnsw.ef_search, only in a session that has loaded its library. EXPLAIN of a
# function of the extension loads the library without calling the function.
libraries=$(quietly ask to "SELECT coalesce(string_agg(plan, ' '), '') FROM (
  SELECT DISTINCT ON (p.probin) format('EXPLAIN SELECT %I.%I(%s);', n.nspname, p.proname,
      (SELECT string_agg(format('(SELECT NULL::%s)', format_type(type, NULL)), ', ' ORDER BY number)
       FROM unnest(p.proargtypes) WITH ORDINALITY a (type, number))) AS plan
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    WHERE l.lanname = 'c' AND p.prokind = 'f' AND p.pronargs > 0 AND p.provariadic = 0 AND NOT p.proretset
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) t JOIN pg_type y ON y.oid = t WHERE y.typtype = 'p')
    ORDER BY p.probin, p.oid) one") || fail 'the extensions cannot be listed'

names=$(quietly ask from "SELECT coalesce(string_agg(DISTINCT quote_literal(split_part(one, '=', 1)), ', '), '')
  FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) one
  WHERE s.setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)") || fail 'settings of the role cannot be read'
unknown=$(quietly ask to "$libraries SELECT concat('unknown ', string_agg(name, ' ')) FROM unnest(ARRAY[$names]::text[]) name
  WHERE current_setting(name, true) IS NULL") || fail 'settings of the role cannot be looked up'
unknown=$(printf '%s\n' "$unknown" | sed -n '$s/^unknown //p')
[ -z "$unknown" ] || fail "the role has settings that the target does not know: its Assistant has to remove them with ALTER ROLE CURRENT_USER RESET $unknown"

# The tenant's own role sets them, so it gets no setting that it could not set itself.
settings=$(quietly ask from "SELECT coalesce(string_agg(format(
    'SELECT pg_catalog.set_config(%L, %L, false); ALTER ROLE CURRENT_USER %s SET %s FROM CURRENT;',
    split_part(one, '=', 1), substr(one, strpos(one, '=') + 1),
    CASE WHEN s.setdatabase = 0 THEN '' ELSE format('IN DATABASE %I', current_database()) END,
    (SELECT string_agg(quote_ident(part), '.') FROM unnest(string_to_array(split_part(one, '=', 1), '.')) part)), ''), '')
  FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) one
  WHERE s.setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)")
quietly ask to "$libraries ALTER ROLE CURRENT_USER RESET ALL; ALTER ROLE CURRENT_USER IN DATABASE $(ask to 'SELECT quote_ident(current_database())') RESET ALL; $settings" \
  >/dev/null || fail 'settings of the role cannot be copied'

# Functions of the tenant run in it, which may never end; the copy is complete without it.
longest=$((LONGEST_SECONDS / 10 + 1))
timeout "$((longest + 5))" psql -Xq -d service=to -c "SET statement_timeout = '${longest}s'" -c ANALYZE </dev/null >/dev/null 2>&1 || true

# Compares a hash of the rows of every table, each sequence, each large object, and the names of settings (their values may be
# written differently: 60s becomes 1min). Definitions are compared as pg_dump writes them.
contents() {
  timeout "$LONGEST_SECONDS" psql -XAtq -v ON_ERROR_STOP=1 -d "service=$1" -f - <<'SQL'
SELECT format('SELECT %L, count(*), sum(hashtextextended(textin(record_out(t.*)), 0)::numeric) FROM ONLY %I.%I t',
    format('%I.%I', n.nspname, c.relname), n.nspname, c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
\gexec
SELECT format('SELECT %L, last_value, is_called FROM %I.%I', format('%I.%I', n.nspname, c.relname), n.nspname, c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'S' AND n.nspname !~ '^pg_'
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
\gexec
SELECT format('large object %s', m.oid), whole.bytes, whole.hash FROM pg_largeobject_metadata m CROSS JOIN LATERAL (
  WITH RECURSIVE piece (number, data) AS (
    SELECT 0, lo_get(m.oid, 0, 1048576)
    UNION ALL SELECT number + 1, lo_get(m.oid, (number + 1) * 1048576::bigint, 1048576) FROM piece WHERE length(data) = 1048576)
  SELECT sum(length(data)) AS bytes, md5(string_agg(md5(data), '' ORDER BY number)) AS hash FROM piece) whole
  ORDER BY m.oid;
SELECT format('setting %s', split_part(one, '=', 1)), s.setdatabase <> 0 FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) one
  WHERE s.setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user) ORDER BY s.setdatabase <> 0, one COLLATE "C";
SQL
}
objects() {
  if [ "$source" = "$target" ]; then
    timeout "$LONGEST_SECONDS" pg_dump -d "service=$1" --schema-only --no-owner --no-privileges |
      sed -e '/^-- Dumped /d' -e '/^\\\(un\)\{0,1\}restrict /d'
  else
    # Two versions of PostgreSQL may write the same definition differently, so only the lists of objects are compared.
    timeout "$LONGEST_SECONDS" pg_dump -d "service=$1" -Fc --schema-only --no-owner --no-privileges --file="$work/$1.list" &&
      pg_restore --list "$work/$1.list" | sed -n 's/^[0-9][0-9]*; [0-9]* [0-9]* //p' | LC_ALL=C sort
  fi
}
for side in from to; do
  quietly contents $side >"$work/$side.contents" || fail "the contents of $side cannot be read"
  quietly objects $side >"$work/$side.objects" || fail "the objects of $side cannot be read"
done
for what in contents objects; do
  cmp -s "$work/from.$what" "$work/to.$what" || {
    # Prints the names of tables that differ, and no rows.
    [ "$what" = objects ] || diff "$work/from.$what" "$work/to.$what" | sed -n 's/^[<>] \([^|]*\)|.*/differs: \1/p' | sort -u | head -n 20 >&2
    fail "the copy is not the same: its $what differ"
  }
done
printf '{"bytes":%s,"sha256":"%s"}\n' "$(size to)" \
  "$(cat "$work/from.contents" "$work/from.objects" | sha256sum | cut -d ' ' -f 1)"
