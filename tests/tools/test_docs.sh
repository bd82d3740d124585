#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The documents: links between them lead somewhere, what they name is there (targets, subcommands, cases of
# tests/programs, source files, functions), and no page outgrows its limit. That the checks find what is wrong is
# tested first.
cd "$UROCE_SOURCE" || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT

# links FILE: prints each link of a Markdown file that leads to no file, or to no heading of one.
links() {
	grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//' | while read -r link; do
		case $link in http://* | https://* | mailto:*) continue ;; esac
		path=${link%%#*} heading=${link#"${link%%#*}"}
		path=${path:+$(dirname "$1")/$path}
		path=${path:-$1}
		if [ ! -e "$path" ]; then
			echo "$1: no file for the link $link"
		elif [ "$heading" ] && ! anchors "$path" | grep -qx -- "${heading#\#}"; then
			echo "$1: no heading for the link $link"
		fi
	done
}

# anchors FILE: what its headings are called in links.
anchors() {
	sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

# targets FILE: prints each `make X` of it that is no target of the Makefile.
targets() {
	grep -oE '(^    |`|&& |sudo )make [a-z][a-z0-9-]*' "$1" | sed 's/.* //' | sort -u | while read -r target; do
		sed -n '/^\.PHONY/,/[^\\]$/p' Makefile | tr -s '\\\t ' '\n' | grep -qx -- "$target" ||
			echo "$1: make $target is no target of the Makefile"
	done
}

# subcommands FILE: prints each `uroce X` at the start of a command that is no subcommand.
subcommands() {
	grep -oE '(^    |`)(build/)?uroce [a-z]+' "$1" | sed 's/.* //' | sort -u | while read -r command; do
		[ "$command" = help ] || uroce "$command" --help >/dev/null 2>&1 || echo "$1: uroce $command is no command"
	done
}

# cases FILE: prints each case of a table of tests/programs that is not there: "verbs.py: `ibv_rc_pingpong`".
cases() {
	# shellcheck disable=SC2016 # backticks of the document
	grep -oE '[a-z]+\.py: `[^`]*`' "$1" | while read -r file case; do
		file=tests/programs/${file%:}
		word=$(echo "$case" | tr -d '`')
		grep -q -F -- "$word" "$file" 2>/dev/null || echo "$1: $file has no '$word'"
	done
}

# sources FILE: prints each source file, function and member of ours that it names and that is not there: `port/run.c`,
# `run.c`, `transmit()`, `qp->lock`.
sources() {
	grep -oE '\b([a-z]+/)+[a-z0-9_]+\.(c|h|def)\b' "$1" | sort -u | while read -r path; do
		[ -e "$path" ] || [ -e "src/$path" ] || [ -e "tests/$path" ] ||
			echo "$1: there is no $path"
	done
	# shellcheck disable=SC2016 # backticks of the document
	grep -oE '`[a-z_0-9]+\(\)' "$1" | tr -d '`()' | sort -u | while read -r name; do
		grep -rqE "\b$name\(" src || echo "$1: there is no $name()"
	done
	# shellcheck disable=SC2016 # backticks of the document
	grep -oE '`[a-z_0-9]+\.(c|h|def)`' "$1" | tr -d '`' | sort -u | while read -r name; do
		[ "$(find src include tests fuzz examples -name "$name")" ] || echo "$1: there is no $name"
	done
	# shellcheck disable=SC2016 # backticks of the document
	grep -oE '`[a-z]+->[a-z_]+`' "$1" | tr -d '`' | sort -u | while read -r name; do
		grep -rqw -e "${name#*->}" src || echo "$1: there is no $name"
	done
}

# promises FILE: prints each entry of a list below "Promised:" that names no test, and each test named there that is none:
# `engine/test_flow.c`, `a_function_of_three_words`, `a case of tests/programs`.
promises() {
	awk '/^Promised:/ { on = 1 }
		/^(Not promised|#)/ { on = 0 }
		/^- / || !on { if (entry) print entry; entry = "" }
		on { entry = entry " " $0 }
		END { if (entry) print entry }' "$1" | grep '^ - ' | while read -r entry; do
		# shellcheck disable=SC2016 # backticks of the document
		tests=$(echo "$entry" |
			grep -oE '\b(fuzz/|[a-z]+/[a-z_0-9]+\.(c|py|sh))|`[a-z]+(_[a-z0-9]+){2,}`|`[a-z]+( [a-z0-9,]+){3,}`' |
			tr -d '`')
		[ "$tests" ] || echo "$1: no test of: $entry"
		echo "$tests" | while read -r name; do
			case $name in
			*/*) [ -e "tests/$name" ] || [ -e "$name" ] ;;
			*) grep -rqF -e "$name" tests ;;
			esac || echo "$1: there is no test $name"
		done
	done
}

# longest FILE LINES: complains of a file that has more lines, and of lines of more than 120 columns.
longest() {
	[ "$(wc -l <"$1")" -le "$2" ] || echo "$1: more than $2 lines"
	awk -v f="$1" 'length > 120 { print f ":" FNR ": more than 120 columns" }' "$1"
}

# figures FILE: prints each row of a table of it, of a program that is measured, that docs/speed.md does not have.
figures() {
	grep -E '^\| ib[a-z_]*(\(\))?[ ,]' "$1" | grep -vxFf docs/speed.md | sed "s|^|$1: docs/speed.md has no row |"
}

# ranks FILE: prints each lock of a file that the table of locks names, and the file does not have with a rank.
ranks() {
	sed -n 's|^LOCK_RANK([A-Z_]*, "\([a-z_/]*\.c\): \([a-z_]*\)".*|\1 \2|p' "$1" | while read -r file lock; do
		grep -q "\b$lock = LOCK_RANKED(" "src/$file" || echo "$1: src/$file has no $lock"
	done
}

# each check finds what is wrong
cat >"$work/wrong.md" <<END
# A heading
[a](nowhere.md) [b](wrong.md#no-heading) [c](#a-heading) [d](https://example.com/)
\`make nothing\` \`make check\` \`uroce nothing\` \`uroce devices\` verbs.py: \`ibv_nothing\` verbs.py: \`ibv_devices\`
\`loop/nothing.c\` \`port/run.c\` \`no_such_function()\` \`post_send()\`
\`no_such_file.c\` \`run.c\` \`qp->no_such_member\` \`qp->lock\`
$(printf '%0121d' 0)

Promised:

- No test.
- No such test (fuzz/test_nothing.c:
  \`no_test_$$\`).
- A test (fuzz/test_work.c).

Not promised: a test.
END
sound() {
	# shellcheck disable=SC2086 # one word, or none
	found=$($1 "$work/wrong.md" $3 | wc -l)
	[ "$found" = "$2" ] || { echo "$1 finds $found of $2"; exit 1; }
}
sound links 2
sound targets 1
sound subcommands 1
sound cases 1
sound sources 5
sound longest 2 1
sound promises 3
printf '%s\n' '| ib_send_lat -s 64 | us | 1 | 2 |' "$(grep -m 1 '^| ib_write_bw' docs/speed.md)" >"$work/wrong.md"
sound figures 1
echo 'LOCK_RANK(RAW, "port/raw.c: no_lock", "nothing")' >"$work/wrong.md"
sound ranks 1

for file in *.md docs/*.md examples/*.md; do
	links "$file"
	targets "$file"
	subcommands "$file"
	cases "$file"
	sources "$file"
	promises "$file"
	case $file in
	README.md) longest "$file" 90 && figures "$file" ;;
	ARCHITECTURE.md) longest "$file" 120 ;;
	*) longest "$file" 1000 ;;
	esac
done >"$work/problems"
ranks src/base/lock_rank.def >>"$work/problems"
cat "$work/problems"
[ ! -s "$work/problems" ]
