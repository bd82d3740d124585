#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Completion offers each command, and each option of each, in bash, zsh and fish, where they are installed.
. "$UROCE_SOURCE/tests/tools/tap.sh"
cd "$UROCE_SOURCE/contrib/completion" || exit

# holds "what" 'words that must be offered' 'words that are'
holds() {
	missing=
	for word in $2; do
		grep -qxe "$word" <<<"$3" || missing="$missing $word"
	done
	[ -z "$missing" ] && [ "$2" ]
	result $? "$1" - <<<"not offered:$missing; offered: $(tr '\n' ' ' <<<"$3")"
}

in_bash() {
	# shellcheck disable=SC2016
	bash --norc -c '. ./uroce.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _uroce; printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

# As a person: a line is typed in a terminal, and all words are read that stand there after a key that lists what
# Tab would choose from. Nothing is typed behind it: zsh shows no list then.
in_zsh() {
	# shellcheck disable=SC2016
	zsh -f -c '
		zmodload zsh/zpty
		zpty -b t zsh -f -i
		zpty -w t "PROMPT=; stty rows 300 cols 200"
		zpty -w t "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D"
		zpty -w t "list() { zle list-choices; zle -R; print -n LISTED }; zle -N list; bindkey \"^I\" list; print READY"
		zpty -r -m t line "*READY*READY*"
		zpty -n -w t "$1"$'"'\t'"'
		zpty -r -m t line "*LISTED*"
		print -r -- $line' zsh "$*" | sed 's/\x1b\[[0-9;?]*[a-zA-Z]/ /g' | tr -cs 'a-zA-Z0-9_-' '\n'
}

in_fish() {
	fish --no-config -c "source uroce.fish; complete -C '$*'" | cut -f1
}

commands=$(uroce --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')
for shell in bash zsh fish; do
	if ! command -v $shell >/dev/null; then
		n=$((n + 1))
		echo "ok $n - $shell # SKIP it is not installed"
		continue
	fi
	offered=$(case $shell in bash) in_bash uroce '' ;; *) in_$shell 'uroce ' ;; esac)
	holds "$shell: commands" "$commands" "$offered"
	for command in $commands; do
		options="--help $(uroce "$command" --help | grep -oE '^  -., --[a-z-]+' | sed 's/.* //')"
		offered=$(case $shell in bash) in_bash uroce "$command" -- ;; *) in_$shell "uroce $command --" ;; esac)
		holds "$shell: options of $command" "$options" "$offered"
	done
	offered=$(case $shell in bash) in_bash uroce run -a c ;; *) in_$shell "uroce run -a c" ;; esac)
	holds "$shell: adapters" "cx5 cx6 cx6lx" "$offered"
	offered=$(case $shell in bash) in_bash uroce demo '' ;; *) in_$shell "uroce demo " ;; esac)
	holds "$shell: demos" "faults check mistakes mended" "$offered"
	offered=$(case $shell in bash) in_bash uroce check --only '' ;; *) in_$shell "uroce check --only " ;; esac)
	holds "$shell: classes of findings" "leaks habits buffers mappings races all" "$offered"
	offered=$(case $shell in bash) in_bash uroce fault 1 '' ;; *) in_$shell "uroce fault 1 " ;; esac)
	holds "$shell: what is done with faults" "list add remove clear" "$offered"
	offered=$(case $shell in bash) in_bash uroce run -t x tru ;; *) in_$shell "uroce run -e tru" ;; esac)
	holds "$shell: programs" "true" "$offered"
done
holds "bash: operations" "SEND WRITE READ" "$(in_bash uroce trace -o '')"
holds "bash: rules of an adapter" "$(uroce conform --list | grep '^modify' | head)" "$(in_bash uroce conform --only mod)"
holds "bash: options without a letter" "--ladder --html" "$(in_bash uroce trace --)"
holds "bash: files" uroce.bash "$(in_bash uroce run -l '')"
! in_bash uroce hostile -n '' | grep .
result $? "bash: no file for a number" /dev/null
finish
