# SPDX-License-Identifier: Apache-2.0
# The rows of endpoint.def as items of a man page, in the place of @ENDPOINTS@.
FNR == NR && /^ENDPOINT_/ {
	split($0, quoted, "\"")
	path = quoted[2]
	method = $0 ~ /^ENDPOINT_PAGE/ ? substr($0, 15, index($0, ",") - 15) : "POST"
	docs = $0
	sub(/^[^"]*"[^"]*"[^"]*"/, "", docs)
	sub(/"\)$/, "", docs)
	gsub(/\\"/, "\"", docs)
	gsub(/\. /, ".\n", docs)
	item = path
	sub(/\*/, "{id}", item)
	if (docs ~ /^[.\/]/)
		docs = "\\&" docs
	rows = rows ".It Li " method " " item "\n" docs "\n"
}
FNR == NR { next }
$0 == "@ENDPOINTS@" { printf "%s", rows; next }
{ print }
