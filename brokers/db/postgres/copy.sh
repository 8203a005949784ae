#!/bin/sh
# Copies one database of a tenant into an empty one of the same name on another server, and compares the two. Standard
# input has their URLs, the source's first, and in a third line the names of all roles of the Capsule, whose grants are
# compared. It logs in as the tenant on both sides, so code that the tenant left in its database gets no further rights.
# Ends with 0 if both are equal.
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
read -r roles || true
case $roles in
*[!a-z0-9_\ ]*) fail 'the third line has names of roles, with spaces between them' ;;
esac

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
quietly timeout "$LONGEST_SECONDS" pg_dump -d service=from -Fc --compress=1 --no-privileges --file="$work/dump" ||
  fail 'the database cannot be dumped'
restore() { timeout "$LONGEST_SECONDS" pg_restore -d service=to --no-owner --no-privileges --exit-on-error "$work/dump"; }
# The shell knows only whether the last program of a pipeline failed, so a program's output is in a file before it is read.
quietly pg_restore --list "$work/dump" >"$work/list" || fail 'the contents of the dump cannot be listed'
owner=$(quietly ask from 'SELECT current_user') || fail 'the role of the database cannot be read'
foreign=$(sed -nE -e "/ (TABLE DATA|SEQUENCE SET|EXTENSION -|COMMENT - EXTENSION) /d" \
  -e "/ $owner\$/d" -e 's/^[0-9]+; [0-9]+ [0-9]+ (.*[^ ])$/\1/p' "$work/list" | head -n 20)
[ -z "$foreign" ] || fail "not the Assistant's own role owns, and a copy would give it to that: $foreign"
quietly restore || fail 'the database cannot be restored'
rm "$work/dump"

# Prints, as statements, how the grants in a database differ from those that new objects have. pg_restore has one statement for
# all grants on an object, which fails as a whole if it names a role that the target does not have, such as one of another
# tenant. Its own role owns all that it can grant. Only the grants to the Capsule's roles and to everybody are compared, since
# others open nothing; so are they if a superuser gave them. Before version 17 no privilege was MAINTAIN.
grants() {
  timeout "$LONGEST_SECONDS" psql -XAtq -v ON_ERROR_STOP=1 -d "service=$1" -f - <<SQL
COPY (
  WITH ours AS (SELECT oid FROM pg_roles WHERE rolname = current_user OR rolname = ANY (string_to_array('$roles', ' '))),
  object (class, oid, number, owner, kind, acl, base) AS (
    SELECT 'pg_class'::regclass, oid, 0, relowner, (CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", relacl, NULL::aclitem[] FROM pg_class
      WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relpersistence <> 't'
    UNION ALL SELECT 'pg_class'::regclass, attrelid, attnum, relowner, 'c', attacl, NULL FROM pg_attribute
      JOIN pg_class c ON c.oid = attrelid WHERE attacl IS NOT NULL AND NOT attisdropped AND relpersistence <> 't'
    UNION ALL SELECT 'pg_namespace'::regclass, oid, 0, nspowner, 'n', nspacl, NULL FROM pg_namespace
    UNION ALL SELECT 'pg_proc'::regclass, oid, 0, proowner, 'f', proacl, NULL FROM pg_proc
    UNION ALL SELECT 'pg_type'::regclass, oid, 0, typowner, 'T', typacl, NULL FROM pg_type
    UNION ALL SELECT 'pg_language'::regclass, oid, 0, lanowner, 'l', lanacl, NULL FROM pg_language
    UNION ALL SELECT 'pg_largeobject'::regclass, oid, 0, lomowner, 'L', lomacl, NULL FROM pg_largeobject_metadata
    UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, oid, 0, fdwowner, 'F', fdwacl, NULL FROM pg_foreign_data_wrapper
    UNION ALL SELECT 'pg_foreign_server'::regclass, oid, 0, srvowner, 'S', srvacl, NULL FROM pg_foreign_server
    UNION ALL SELECT 'pg_default_acl'::regclass, oid, 0, defaclrole, defaclobjtype, defaclacl, acldefault(
        CASE WHEN defaclnamespace <> 0 THEN 'c' WHEN defaclobjtype = 'S' THEN 's' ELSE defaclobjtype END, defaclrole) FROM pg_default_acl),
  given AS (
    SELECT o.class, o.oid, o.number, o.kind, o.owner, entry.* FROM object o
      LEFT JOIN pg_init_privs i ON i.classoid = o.class AND i.objoid = o.oid AND i.objsubid = o.number
      CROSS JOIN LATERAL (SELECT coalesce(o.base, i.initprivs, acldefault(o.kind, o.owner)) AS base) b
      CROSS JOIN LATERAL (SELECT coalesce(o.acl, acldefault(o.kind, o.owner)) AS acl) a
      CROSS JOIN LATERAL (
        (SELECT true AS given, grantee, privilege_type, is_grantable FROM aclexplode(a.acl)
          EXCEPT SELECT true, grantee, privilege_type, is_grantable FROM aclexplode(b.base))
        UNION ALL (SELECT false, grantee, privilege_type, is_grantable FROM aclexplode(b.base)
          EXCEPT SELECT false, grantee, privilege_type, is_grantable FROM aclexplode(a.acl))) entry
      WHERE o.acl IS NOT NULL OR i.initprivs IS NOT NULL)
  SELECT grantee = 0 OR grantee IN (SELECT oid FROM ours), given, r.rolname,
    CASE WHEN class = 'pg_default_acl'::regclass THEN
      (SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %I ', pg_get_userbyid(owner)) || coalesce('IN SCHEMA ' || quote_ident(n.nspname) || ' ', '')
       FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace WHERE d.oid = given.oid) ELSE '' END
    || CASE WHEN given THEN 'GRANT ' ELSE 'REVOKE ' END || privilege_type
    || coalesce((SELECT format(' (%I)', attname) FROM pg_attribute WHERE kind = 'c' AND attrelid = given.oid AND attnum = number), '')
    || ' ON ' || CASE WHEN class = 'pg_default_acl'::regclass THEN
      CASE kind WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'ROUTINES' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS'
        WHEN 'L' THEN 'LARGE OBJECTS' END
      ELSE CASE kind WHEN 'r' THEN 'TABLE' WHEN 'c' THEN 'TABLE' WHEN 's' THEN 'SEQUENCE' WHEN 'n' THEN 'SCHEMA' WHEN 'f' THEN 'ROUTINE'
        WHEN 'T' THEN 'TYPE' WHEN 'l' THEN 'LANGUAGE' WHEN 'L' THEN 'LARGE OBJECT' WHEN 'F' THEN 'FOREIGN DATA WRAPPER'
        WHEN 'S' THEN 'FOREIGN SERVER' END || ' ' || (pg_identify_object(class, given.oid, 0)).identity END
    || CASE WHEN given THEN ' TO ' ELSE ' FROM ' END || CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
    || CASE WHEN given AND is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
  FROM given LEFT JOIN pg_roles r ON r.oid = grantee
  WHERE (owner = (SELECT oid FROM pg_roles WHERE rolname = current_user) OR grantee IN (SELECT oid FROM ours))
    AND NOT (privilege_type = 'MAINTAIN' AND $source < 17)
) TO STDOUT
SQL
}
quietly grants from >"$work/from.given" || fail 'the grants of from cannot be read'
# psql executes each result of the query as a statement of its own, and no command of psql's; one that fails is among the differences.
timeout "$LONGEST_SECONDS" psql -XAtq -d service=to -f - >/dev/null 2>&1 <<SQL || fail 'the grants cannot be copied'
CREATE TEMP TABLE wanted (compared boolean, given boolean, grantee name, statement text);
\\copy wanted FROM '$work/from.given'
SELECT statement FROM wanted WHERE grantee IS NULL OR grantee IN (SELECT rolname FROM pg_roles) ORDER BY given
\\gexec
SQL

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
    timeout "$LONGEST_SECONDS" pg_dump -d "service=$1" --schema-only --no-owner --no-privileges --file="$work/$1.schema" &&
      sed -e '/^-- Dumped /d' -e '/^\\\(un\)\{0,1\}restrict /d' "$work/$1.schema"
  else
    # Two versions of PostgreSQL may write the same definition differently, so only the lists of objects are compared.
    timeout "$LONGEST_SECONDS" pg_dump -d "service=$1" -Fc --schema-only --no-owner --no-privileges --file="$work/$1.list" &&
      pg_restore --list "$work/$1.list" >"$work/$1.listed" &&
      sed -n 's/^[0-9][0-9]*; [0-9]* [0-9]* //p' "$work/$1.listed" | LC_ALL=C sort
  fi
}
for side in from to; do
  quietly grants $side >"$work/$side.given" || fail "the grants of $side cannot be read"
  sed -n 's/^t\t.*\t//p' "$work/$side.given" | LC_ALL=C sort -u >"$work/$side.grants"
  quietly contents $side >"$work/$side.contents" || fail "the contents of $side cannot be read"
  quietly objects $side >"$work/$side.objects" || fail "the objects of $side cannot be read"
done
for what in contents objects grants; do
  cmp -s "$work/from.$what" "$work/to.$what" || {
    # Prints the names of tables that differ, and no rows; grants as statements.
    case $what in
    contents) diff "$work/from.$what" "$work/to.$what" | sed -n 's/^[<>] \([^|]*\)|.*/differs: \1/p' | sort -u | head -n 20 >&2 ;;
    grants) diff "$work/from.$what" "$work/to.$what" | sed -n -e 's/^< /only on the source: /p' -e 's/^> /only on the target: /p' | head -n 20 >&2 ;;
    esac
    fail "the copy is not the same: its $what differ"
  }
done
printf '{"bytes":%s,"sha256":"%s"}\n' "$(size to)" \
  "$(cat "$work/from.contents" "$work/from.objects" "$work/from.grants" | sha256sum | cut -d ' ' -f 1)"
