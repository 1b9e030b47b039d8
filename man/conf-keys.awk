# SPDX-License-Identifier: Apache-2.0
#
# awk -f conf-keys.awk conf/halod.conf man/halod.conf.5.in > halod.conf.5
#
# Puts the keys of the example file, with their help, defaults and ranges, in place
# of the line @KEYS@, as lists of mdoc(7). The example file is tested against the
# program's own table, so the page cannot go stale.

# mdoc wants a line for each sentence, and none that begins with a dot.
function mdoc(text) {
	gsub(/\\/, "\\e", text)
	gsub(/\. /, ".\n", text)
	return text
}

function close_list() {
	if (in_list)
		keys = keys ".El\n"
	in_list = 0
}

FNR == NR && /^# --- / {
	close_list()
	title = $0
	gsub(/^# --- | ---$/, "", title)
	keys = keys ".Ss " title "\n.Bl -tag -width Ds\n"
	in_list = 1
	help = ""
	next
}
FNR == NR && in_list && /^# Default / {
	facts = substr($0, 3)
	next
}
FNR == NR && in_list && /^# / {
	help = help (help == "" ? "" : " ") substr($0, 3)
	next
}
FNR == NR && in_list && /^#?[a-z_]+ = / {
	key = $1
	sub(/^#/, "", key)
	keys = keys ".It Ic " key "\n" mdoc(help) "\n.br\n" mdoc(facts) "\n"
	help = ""
	next
}
FNR == NR { next }
/^@KEYS@$/ {
	close_list()
	printf "%s", keys
	next
}
{ print }
