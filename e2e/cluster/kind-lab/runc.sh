#!/bin/bash
# runc for a root user without CAP_SYS_RESOURCE: `--privileged` would add that capability, and lowering oom_score_adj needs it.
set -euo pipefail
file='' previous=''
for argument in "$@"; do
  case $previous in
    --bundle | -b) file=$argument/config.json ;;
    --process | -p) file=$argument ;;
  esac
  previous=$argument
done
[[ -f $file ]] && sed -i -E 's/"CAP_SYS_RESOURCE",|,"CAP_SYS_RESOURCE"//g; s/"oomScoreAdj":-[0-9]+/"oomScoreAdj":0/g' "$file"
exec RUNC "$@"
