#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints the page that halod serves, in one piece: index.html with the styles and the
# scripts that Makefile.inc names, in that order: join.sh FOLDER FILE...
set -eu
cd "$1"
shift
while IFS= read -r line; do
	case $line in
	'<!-- styles -->') open='<style>' ending=.css close='</style>' ;;
	'<!-- scripts -->') open='<script>' ending=.js close='</script>' ;;
	*) printf '%s\n' "$line"; continue ;;
	esac
	echo "$open"
	for file in "$@"; do
		case $file in *"$ending") cat "$file" ;; esac
	done
	echo "$close"
done <index.html
