# SPDX-License-Identifier: Apache-2.0
#
# bash completes halod and haloctl with this. It reads the programs' own --help each time,
# so it knows what the installed version knows.

# _halod_read WHAT [OPTION], with a --help on stdin: the commands, the options, or what may
# follow an option: its words, "(files)", or "(nothing)" where only the user knows.
_halod_read() {
	awk -v what="$1" -v want="$2" '
	match($0, /^ +(-[A-Za-z], )?--(\[no-\])?[a-z0-9-]+/) {
		short = long = substr($0, RSTART, RLENGTH)
		rest = substr($0, RSTART + RLENGTH)
		sub(/^ +/, "", short); sub(/,.*/, "", short)
		negates = sub(/.*--\[no-\]/, "--", long); sub(/.* --/, "--", long)
		if (what == "options") {
			print long
			if (negates) print "--no-" substr(long, 3)
		}
		in_it = want == long || want == short
		if (in_it) { kind = rest; sub(/^ /, "", kind); sub(/[ ,].*/, "", kind) }
	}
	/^$/ { in_it = 0 }
	in_it { text = text " " $0; gsub(/ +/, " ", text) }
	what == "commands" && /^  [a-z]/ {
		line = $0; sub(/^  /, "", line); sub(/  .*/, "", line); print line
	}
	END {
		if (what != "values") exit
		if (match(text, /one of: [a-z0-9_ -]+/)) text = substr(text, RSTART + 8, RLENGTH - 8)
		else if (match(text, /: [a-z0-9_]+(, [a-z0-9_]+)+/))
			text = substr(text, RSTART + 2, RLENGTH - 2)
		else text = kind ~ /^(DIR|FILE|TEXT)$/ ? "(files)" : kind ? "(nothing)" : ""
		gsub(/,/, "", text); gsub(/ /, "\n", text)
		if (text != "") print text
	}'
}

_halod() {
	local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local -a command=("${COMP_WORDS[0]}")
	local words i
	COMPREPLY=()
	command -v -- "${command[0]}" >/dev/null || return
	# haloctl: the words of the command so far.
	if [[ ${command[0]} == *haloctl ]]; then
		for ((i = 1; i < COMP_CWORD; i++)); do
			[[ ${COMP_WORDS[i]} == -* ]] && break
			command+=("${COMP_WORDS[i]}")
			[[ ${COMP_WORDS[i]} == bench || ${COMP_WORDS[i]} == kernels ]] || break
		done
		[[ " ${COMP_WORDS[*]} " == *" verify "*"--answers "* ]] && command+=(--answers)
		if ((${#command[@]} == COMP_CWORD)) && [[ $current != -* ]]; then
			case ${command[1]} in
			"") words=$("${command[0]}" --help 2>/dev/null | _halod_read commands |
				cut -d ' ' -f 1 | sort -u) ;;
			bench) words=$("${command[0]}" --help 2>/dev/null | _halod_read commands |
				sed -n 's/^bench //p') ;;
			kernels) ((COMP_CWORD == 2)) &&
				words=$("${command[@]}" --help 2>/dev/null | _halod_read commands) ;;
			esac
			if [[ -n $words ]]; then
				mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
				return
			fi
		fi
	fi
	words=
	[[ $before == -* ]] &&
		words=$("${command[@]}" --help 2>/dev/null | _halod_read values "$before")
	if [[ $words == "(files)" ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
	fi
	[[ $words == "(nothing)" ]] && return
	[[ -n $words ]] || words=$("${command[@]}" --help 2>/dev/null | _halod_read options)
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _halod halod haloctl
