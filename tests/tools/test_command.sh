#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What `uroce` does with right and with wrong arguments. In a network namespace of its own where it can have one:
# others may use port 4791 of this one.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network or_here
own_folder

check "without a command, it says what to do next" 2 'uroce run PROGRAM' uroce
check "... in 15 lines" 0 '^1[0-5]$' sh -c 'uroce 2>&1 | wc -l'
check "an unknown command is named, and the nearest" 2 "no command 'docter': did you mean doctor?" uroce docter
check "... but no word that is far from it" 2 "no command 'xyzzy' (.uroce --help. lists all)" uroce xyzzy
check "... nor an option" 2 "no option '--xyzzy'$" uroce trace --xyzzy x
check "help on one, too" 2 "no command 'docter': did you mean doctor?" uroce help docter
check "an unknown option is named, and the nearest" 2 "'--opkode=READ': did you mean --opcode" uroce trace --opkode=READ x
check "a letter that is no option" 2 'no option -z' uroce run -z x
check "an option without its argument" 2 "'--trace' needs an argument" uroce run --trace
check "... that has no letter" 2 "'--html' needs an argument" uroce trace --html
check "... with one too many" 2 "'--live=3' takes no argument" uroce trace --live=3
check "an option with an argument too many" 2 "'--keep=3' takes no argument" uroce demo --keep=3
check "--help behind an option" 0 "usage: uroce demo" uroce demo -k --help
check "a file that cannot be read, before the program runs" 1 '/nope: No such file or directory' uroce check -s /nope true
check "... or made" 2 '/nope/x: No such file or directory' uroce run --trace /nope/x true
check "... as it is a folder" 1 '/: Is a directory' uroce check --log-file / true
check "help environment lists the variables" 0 '^UROCE_LOG=error|warn|info|debug  *warn$' uroce help environment
check "... in 80 columns, but for the names of all adapters" 0 "^1$" sh -c 'uroce help environment --all | grep -c ".\{81\}"'
check "... without those of the tests" 1 '^0$' sh -c 'uroce help environment | grep -c UROCE_QUICK'
check "... or with them" 0 '^UROCE_QUICK=' uroce help environment --all
check "--version" 0 '^uroce [0-9]' uroce --version
check "--help lists the commands" 0 '  doctor ' uroce --help
check "... in 80 columns" 1 '^0$' sh -c 'uroce --help | grep -c ".\{81\}"'
check "help --help is --help" 0 '  doctor ' uroce help --help
for command in run check demo devices link doctor explain fault hostile pair pcap stat top trace; do
	check "$command --help" 0 "usage: uroce $command" uroce $command --help
	check "... in 80 columns" 1 '^0$' sh -c "uroce $command --help | grep -c '.\{81\}'"
	check "help $command" 0 "usage: uroce $command" uroce help $command
	check "$command with an unknown option" 2 'usage: uroce' uroce $command --nonsense
done

check "explain of a cause" 0 '^0x214 RKEY_BOUNDS: the peer' uroce explain 0x214
check "... of a request that was flushed behind it" 0 'was flushed' uroce explain 0x1214
check "... by its name" 0 '^0x214 RKEY_BOUNDS: the peer' uroce explain RKEY_BOUNDS
check "... of a status" 0 '^vendor_err 0x121 NO_ANSWER: the peer does not answer' uroce explain 12
check "... by its name" 0 '^vendor_err 0x127 PEER_PSN: ' uroce explain IBV_WC_RETRY_EXC_ERR
check "... that is flushed" 0 'look at the first completion with another status' uroce explain WR_FLUSH_ERR
check "... of what is none" 1 'no cause 0x99' uroce explain 0x99
check "... of a process that has no device" 1 "process $$: it has made no connection" uroce explain -p $$
check "... of nothing" 2 'give the code' uroce explain
check "... of a word that is no process" 2 "'x' is not a process id" uroce explain -p x
check "... all of them" 0 '0x401  SEND_QUEUE_FULL' uroce explain --list
check "fault without a process" 2 'give a process id first' uroce fault
check "fault with a word that is none" 2 "'lst' is unknown: use list" uroce fault 1 lst
check "fault without its rule" 2 'one rule, in quotes' uroce fault 1 add
check "fault of a process without devices" 1 'has made no connection' uroce fault $$ list
check "pcap without a file" 2 'no file named' uroce pcap 1
check "pcap without a process" 2 'which processes' uroce pcap -w x.pcapng
check "a full disk" 1 'standard output: No space left on device' sh -c 'uroce --help >/dev/full'
check "a full disk, of help" 1 'standard output: No space' sh -c 'uroce help environment >/dev/full'
check "a full disk, of stat" 1 'standard output: No space' sh -c 'uroce stat -p >/dev/full'
check "a full disk, of top" 1 'standard output: ' sh -c 'uroce top -d0.1 >/dev/full'
check "no picture" 2 "'0' is out of range" uroce top -n 0
check "pcap with a bad number" 2 "'3' is not a snap length" uroce pcap -w x.pcapng -s 3 1
check "pcap with another bad number" 2 "'0' is not a size of a file" uroce pcap -w x.pcapng -C 0 1
check "pcap of a process without devices" 1 'has made no connection' uroce pcap -w x.pcapng $$
check "pcap with a bad address" 2 'is not an IP address' uroce pcap -w x.pcapng -a nowhere 1
check "run with a snap length that is too short" 2 'at least 110' uroce run -p x.pcapng -S 20 true
check "run without a program" 2 'which program' uroce run
check "run of a program that is not there" 127 'nothere: is not in PATH' uroce run nothere
check "run of a file that is not there" 127 'No such file' uroce run ./nothere
touch plain
check "run of what is not executable" 126 'is not executable' uroce run ./plain
check "run of a directory" 126 'is not executable' uroce run ./.
check "run keeps arguments and exit status" 7 '^a b$' uroce run -- sh -c 'echo "$1 $2"; exit 7' sh a b
check "run puts the libraries in front" 0 'liburoce.so.1:.*/liburoce-sysfs.so$' uroce run sh -c 'echo $LD_PRELOAD'
case $UROCE_PRELOAD in
*:*) ;; # a sanitizer's library insists on being the first
*) check "run keeps what was preloaded" 0 'liburoce.so.1:.*/liburoce-sysfs.so:libc.so.6$' env LD_PRELOAD=libc.so.6 \
	uroce run sh -c 'echo $LD_PRELOAD' ;;
esac
case $UROCE_PRELOAD in
*:*) ;; # one sanitizer is enough
*) cc -fsanitize=address "$UROCE_SOURCE/examples/qp_single_host.c" -o sanitized -libverbs 2>/dev/null &&
	check "run of a program with AddressSanitizer" 0 'it was 41, now it is 42' uroce run ./sanitized ;;
esac
check "run inside run preloads once" 0 '^1$' uroce run uroce run sh -c 'echo $LD_PRELOAD | grep -o liburoce.so | wc -l'
check "run -t sets the trace, by its full path" 0 "^$work/here$" uroce run -t here sh -c 'cd /; echo $UROCE_TRACE'
printf '#!/bin/sh\necho script ran\n' >script && chmod +x script
check "run of a script" 0 'script ran' uroce run ./script
printf 'int main(void) { return 0; }\n' >static.c
if cc -static static.c -o static 2>/dev/null; then
	check "run of a static program" 126 'linked statically' uroce run ./static
	printf '#!%s/static\n' "$work" >static.sh && chmod +x static.sh
	check "run of a script for a static program" 126 'linked statically' uroce run ./static.sh
fi
if cc -Wl,--dynamic-linker=/lib/ld-musl-"$(uname -m)".so.1 static.c -o musl 2>/dev/null; then
	check "run of a program for musl" 126 'musl is linked with musl, where liburoce.so.1 needs glibc' uroce run ./musl
	printf '#! %s/musl\n' "$work" >musl.sh && chmod +x musl.sh
	check "run of a script for one" 126 'is linked with musl' uroce run ./musl.sh
fi
cp /bin/true setuid && chmod 4755 setuid 2>/dev/null && chown 1:1 setuid 2>/dev/null && chmod 6755 setuid &&
	check "run of a setuid program" 126 'is setuid' uroce run ./setuid

check "devices" 0 '^uroce0 ' uroce devices
check "devices says what programs of this host use" 0 '127.0.0.1  *direct$' uroce devices
check "without adoption they use process_vm" 0 '127.0.0.1  *process_vm$' env UROCE_ADOPT=off uroce devices
check "and that is why" 0 'Nothing is mapped: UROCE_ADOPT is off' env UROCE_ADOPT=off uroce devices
check "with a limit to files, too" 0 '127.0.0.1  *process_vm$' sh -c 'ulimit -f 1000000; uroce devices'
check "with a narrow one, rings" 0 '127.0.0.1  *rings$' sh -c 'ulimit -f 100000; uroce devices'
check "with a very narrow one, UDP" 0 'No shared memory: .*ulimit -f' sh -c 'ulimit -f 100; uroce devices'
check "between hosts" 0 'Between hosts: UDP\.' uroce devices
check "by frames, or not, and why" 0 'Between hosts: .*\(Ethernet frames\|lacks CAP_NET_RAW\)' env UROCE_LINK=packet uroce devices
check "without shared memory they use UDP" 0 '127.0.0.1  *udp$' env UROCE_LOCAL=off uroce devices
check "where files are limited programs run" 0 'uroce0' sh -c 'ulimit -f 100; uroce run ibv_devinfo'
check "too few descriptors are named" 1 'uroce0 cannot be opened: too many open files' sh -c 'ulimit -n 8; uroce run ibv_devinfo -d uroce0'
case $UROCE_PRELOAD in
*:*) ;; # a sanitizer begins threads of its own, and reads /proc/self/maps
*)
	if strace -f -o trace.out -e inject=clone3:error=EPERM true 2>/dev/null; then
		check "a thread that is forbidden is named" 1 'thread .* sandbox .* clone3' \
			strace -f -o trace.out -e inject=clone3:error=EPERM uroce run qp_single_host
		check "one too many is named" 1 'thread .* ulimit -u' \
			strace -f -o trace.out -e inject=clone3:error=EAGAIN uroce run qp_single_host
	fi
	if valgrind -q true 2>/dev/null; then # where it is installed
		check "valgrind finds nothing" 0 'now it is 42' \
			uroce run valgrind -q --error-exitcode=9 "$(command -v qp_single_host)"
		check "valgrind finds nothing by UDP" 0 'now it is 42' \
			env UROCE_LOCAL=off uroce run valgrind -q --error-exitcode=9 "$(command -v qp_single_host)"
	fi
	if unshare -m $([ "$(id -u)" = 0 ] || echo -r) mount -t tmpfs none /proc 2>/dev/null; then
		check "run without /proc" 0 'uroce0' unshare -m $([ "$(id -u)" = 0 ] || echo -r) \
			sh -c 'mount -t tmpfs none /proc && exec uroce run ibv_devices'
		ln -s "$(command -v uroce)" elsewhere
		check "run without /proc, by a link" 0 'uroce0' unshare -m $([ "$(id -u)" = 0 ] || echo -r) \
			sh -c 'mount -t tmpfs none /proc && exec ./elsewhere run ibv_devices'
	fi ;;
esac
if setpriv --bounding-set=-net_raw --inh-caps=-net_raw true 2>/dev/null; then
	check "doctor says that the packet link lacks its capability" 0 'between hosts  *udp, since UROCE_LINK=packet lacks' \
		setpriv --bounding-set=-net_raw --inh-caps=-net_raw env UROCE_LINK=packet uroce doctor
fi
check "doctor says the same" 0 'same host  *udp: .*UDP' env UROCE_LOCAL=off uroce doctor
# with_holder command...: while another user has the port of 127.0.0.1
cat >with_holder <<'END'
import os, socket, subprocess, sys
os.seteuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 4791))
os.seteuid(0)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
END
if python3 -c 'import os; os.seteuid(65534)' 2>/dev/null; then
	check "another user's address is none" 0 '127.0.0.1  *none$' python3 with_holder uroce devices
	check "doctor names the user" 1 'held by a program of user 65534' python3 with_holder uroce doctor
fi
cat >with_own <<'END'
import socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 4791))
sys.exit(subprocess.run(sys.argv[1:]).returncode)
END
check "so is one that a program without uroce has" 0 '127.0.0.1  *none$' python3 with_own uroce devices
check "doctor names that program" 1 '127.0.0.1: held by python3, process [0-9]* of yours' python3 with_own uroce doctor
check "devices takes no argument" 2 'usage' uroce devices all
check "doctor says something of each address" 0 'port 4791' uroce doctor

check "doctor as JSON says the same" 0 '^uroce0$' sh -c 'UROCE_LOCAL=off uroce doctor --json | python3 -c "
import json, sys
all = json.load(sys.stdin)
worst = max(all[\"findings\"], key=lambda f: (\"ok\", \"warn\", \"fail\").index(f[\"verdict\"]))
assert worst[\"verdict\"] == all[\"verdict\"], all
[local] = [f for f in all[\"findings\"] if f[\"what\"] == \"same host\"]
assert local[\"text\"].startswith(\"udp:\") and local[\"advice\"], local
print(*(f[\"what\"] for f in all[\"findings\"]), sep=chr(10))"'
check "doctor names the C library" 0 'C library  *glibc 2' uroce doctor
check "doctor names the packages that are here" 0 'useful packages  .*libibverbs-dev' uroce doctor
mkdir empty
check "... and says what the others are for" 0 'apt install perftest: ib_send_bw' \
	env PATH="$work/empty" "$(command -v uroce)" doctor
check "doctor takes no argument" 2 "'all'" uroce doctor all
if python3 -c 'import os; os.seteuid(65534)' 2>/dev/null; then
	check "its exit status, too" 1 '"verdict":.*"fail"' python3 with_holder uroce doctor -j
fi

check "trace without a file" 2 'no file named' uroce trace
check "trace of a file that is not there" 1 'nothere: No such file' uroce trace nothere
check "trace of what is no trace" 1 'is not a trace' uroce trace ./script
check "trace with a number that is none" 2 "'ten' is not a number" uroce trace --limit ten script
check "trace of an operation that is none" 2 "'FOO' is not an operation; these are:.* READ " uroce trace -o FOO script
check "trace with a negative number" 2 "'-1' is not a number" uroce trace --limit -1 script

UROCE_TRACE=$work/single uroce run qp_single_host >out 2>&1 || { sed 's/^/# /' out; }
check "a trace shows the life of a SEND" 0 '^SEND of .*from post to poll' uroce trace -l 0 single
check "... and the states of its queue pairs" 0 '^A  QP 0x[0-9a-f]*, peer 0x[0-9a-f]*: RESET, INIT, RTR after [0-9.]* [um]s, RTS after ' \
	env COLUMNS=200 uroce trace -l 0 single
check "two queue pairs of one process are A and B" 0 '^A and B  single: ' uroce trace -l 0 single
check "... in the states" 0 '^B  QP 0x' uroce trace -l 0 single
check "... in the titles" 0 '^SEND of 64 bytes, A -> B: ' uroce trace -l 0 single
check "... in each step" 0 ' B  *memory written' uroce trace -l 0 single
check "... in a ladder" 0 ' A qp_single_host  *B qp_single_host$' uroce trace --ladder -l 0 single
check "... of a WRITE" 0 '^WRITE of ' uroce trace -l 0 single
for state in 'WQE POSTED' 'WQE PROCESSING' 'WQE COMPLETED' 'CQE PENDING' 'CQE POLLED'; do
	check "... names the state $state" 0 "$state" uroce trace -l 0 single
done
check "... and a table of times" 0 'median, us' uroce trace --summary single
check "... as JSON" 0 '"operations": [1-9]' sh -c 'uroce trace --json single | python3 -c "
import json, sys
all = json.load(sys.stdin)
for request in all[\"requests\"]:
    assert request[\"wqe_state\"] == \"COMPLETED\", request
    at = [step[\"at_ns\"] for step in request[\"steps\"]]
    assert at == sorted(at), request
print(json.dumps({\"operations\": len({row[\"operation\"] for row in all[\"summary\"]})}))"'
check "... of one operation only" 1 '^READ' sh -c 'uroce trace -o READ -l 0 single | grep "^[A-Z_]* of" |
	grep -v "^READ" || { echo READ; exit 1; }'
check "... limited" 0 'last 1 of ' uroce trace --limit 1 single
check "... of a queue pair that is not there" 0 'None of the' uroce trace --qpn 0xabcdef single

check "a trace that cannot be written is complained of, and the program runs" 0 'no trace: UROCE_TRACE=/nowhere/x' \
	env UROCE_TRACE=/nowhere/x uroce run ibv_devinfo
check "a value that means nothing is refused" 2 'UROCE_LOG=bogus means nothing: allowed is error|warn|info|debug' \
	env UROCE_LOG=bogus uroce run touch began
check "... before the program begins" 1 '' test -e began
check "... nor with an adapter that there is not" 2 'UROCE_ADAPTER=cx99 means nothing: allowed is uroce|cx5|' \
	uroce run --adapter=cx99 true
check "... nor under check" 2 'UROCE_LINK=cable means nothing: allowed is udp|packet' env UROCE_LINK=cable uroce check true
check "... without the command it has no devices" 255 'UROCE_LOCAL=maybe means nothing' \
	env UROCE_LOCAL=maybe LD_PRELOAD="$UROCE_PRELOAD" ibv_devinfo
check "a name that is nearly one of ours, too" 0 'UROCE_LOCL is no .*: did you mean UROCE_LOCAL?' \
	env UROCE_LOCL=off uroce run ibv_devinfo
check "... once, by a program and its children" 0 '^1$' sh -c 'UROCE_LOCL=off uroce devices 2>&1 | grep -c LOCL'
check "... and not in a program that asks for no devices" 1 '^0$' sh -c 'UROCE_LOCL=off uroce run true 2>&1 | grep -c LOCL'
check "an interface that is not there is named, and those that are" 255 "'nosuch' gives no device: .*; usable interfaces: lo" \
	env UROCE_DEVICES=nosuch uroce run ibv_devinfo
check "demo of a directory that is not there" 1 '/nowhere is not a directory .*: No such file' uroce demo -k -d /nowhere
check "demo of what is none" 2 "'fault' is unknown: use faults, check" uroce demo fault
check "demo of two" 2 "'check' is unknown" uroce demo faults check
check "the program with mistakes, alone, says how to run it" 1 'libibverbs is not loaded: use .uroce run uroce demo mistakes' uroce demo mistakes
check "demo that makes no trace keeps none" 127 '^No trace was made' uroce demo -k -d "$work"
check "demo without its programs says what to install" 127 'install ibverbs-utils' uroce demo -d "$work"

finish
