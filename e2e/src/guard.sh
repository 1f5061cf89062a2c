# Owns one folder and one process in it on behalf of a test, and ends both when the test process is gone.
#
#   stdin   a pipe whose only writer is the test process: its end of file is the order to stop, and it comes
#           whether the test drops the pipe, exits, aborts or is killed
#           the command to run comes on it first: one argument per line, ended by an empty line
#   stdout  the path of the folder, then the pid of the command
#   $1      what the folder is named after
#
# In the folder: `log` has what the command printed; `exit` appears with its exit status when it ends by itself.
set -u
umask 077
exec 3<&0 </dev/null
folder=$(mktemp -d "${TMPDIR:-/tmp}/capt-$1.XXXXXX") || exit 1
shift
cd "$folder" || exit 1
folder=$PWD
exec 2>log
# Answers are printed by a subshell: when the test is gone already, the broken pipe must not end the guard.
(echo "$folder")

given=
while IFS= read -r argument <&3; do
    if [ -z "$argument" ]; then
        given=1
        break
    fi
    set -- "$@" "$argument"
done

if [ "$given" ]; then
    "$@" >>log 2>&1 3<&- &
    command=$!
    (echo "$command")
    exec >/dev/null
    (
        read -r _ <&3
        [ -e exit ] || kill -9 "$command"
    ) &
    wait "$command"
    echo $? >exit
    wait
fi
cd / && rm -rf "$folder"
