#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes lib.js, lib.css and LICENSES of the packages that package-lock.json pins:
#
#   $ src/page/lib/build.sh [FOLDER]        writes into FOLDER; else beside this script
#
# Needs npm and a network. Nothing of a package is run: its files for browsers are put one
# behind the other, with their licences. So the same lock gives the same bytes, and
# tests/http/test_page_lib.py holds the tree to that.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work"
(cd "$work" && npm ci --silent --fetch-timeout=60000)
cd "$work/node_modules"
hljs=@highlightjs/cdn-assets

for name in markdown-it entities linkify-it mdurl punycode.js uc.micro katex $hljs; do
	echo "=== $name $(sed -n 's/^ *"version": *"\(.*\)",*/\1/p' "$name/package.json") ==="
	cat "$name"/LICENSE*
	echo
done | tr -d '\r' | sed 's/[ 	]*$//' >"$out/LICENSES"

{
	echo "/* Made by src/page/lib/build.sh of other projects' files, whose licences are:"
	sed 's,\*/,* /,g' "$out/LICENSES"
	echo "*/"
	for file in markdown-it/dist/browser/markdown-it.umd.min.js katex/dist/katex.min.js \
		"$hljs/highlight.min.js" $(printf "$hljs/languages/%s.min.js " cmake dockerfile \
			haskell latex nginx powershell protobuf scala); do
		cat "$file"
		echo
	done
} | sed '/^\/\/# sourceMappingURL=/d' >"$out/lib.js"

# The fonts go into the styles, in the one format that all browsers know.
sed 's/,url([^)]*\.\(woff\|ttf\)) format("[a-z]*")//g' katex/dist/katex.min.css |
	awk -v RS='url\\(fonts/' -v ORS= '
		NR == 1 { print; next }
		{
			name = substr($0, 1, index($0, ")") - 1)
			print "url(data:font/woff2;base64,"
			fflush()
			system("base64 -w 0 katex/dist/fonts/" name)
			print substr($0, length(name) + 1)
		}' >"$out/lib.css"

# What would end the page's script or style too early.
! grep -il '<script[[:space:]/>]\|</script\|</style' "$out/lib.js" "$out/lib.css"
