package policy

import "sync"

// vettedTable holds the programs that only read, by name. It is built when it is first used: every process of this binary
// pays for what is built at its start.
var vettedTable = sync.OnceValue(func() map[string]*vettedProgram {
	table := map[string]*vettedProgram{}
	for _, v := range vettedPrograms() {
		if v.table == nil {
			v.table = newTable("")
		}
		if !v.builtin {
			v.table = v.table.merged(newTable("--help --version"))
		}
		table[v.name] = &v
	}
	return table
})

// vettedPrograms is the list of runtime.md section 5.4. Options are those of GNU; what another system calls differently is
// not known there, and confirm.
func vettedPrograms() []vettedProgram {
	return append(append(append(shellPrograms(), filePrograms()...), searchPrograms()...), textPrograms()...)
}

func shellPrograms() []vettedProgram {
	return []vettedProgram{
		{name: "echo", operands: operandsText, raw: true, any: true, builtin: true},
		{name: ":", operands: operandsText, raw: true, any: true, builtin: true},
		{name: "true", operands: operandsText, raw: true, any: true, builtin: true},
		{name: "false", operands: operandsText, raw: true, any: true, builtin: true},
		{name: "printf", operands: operandsText, raw: true, any: true, builtin: true, check: checkPrintf},
		{name: "test", operands: operandsText, raw: true, any: true, builtin: true, check: checkTest},
		{name: "[", operands: operandsText, raw: true, any: true, builtin: true, check: checkTest},
		{name: "pwd", operands: operandsNone, builtin: true, table: newTable("-L -P --logical --physical")},
		{name: "type", operands: operandsText, builtin: true, table: newTable("-a -f -P -p -t")},
		{name: "exit", operands: operandsText, raw: true, any: true, builtin: true},
		{name: "return", operands: operandsText, raw: true, builtin: true},
		{name: "break", operands: operandsText, raw: true, builtin: true},
		{name: "continue", operands: operandsText, raw: true, builtin: true},
		{name: "seq", operands: operandsText, any: true, table: newTable("-f= -s= -w --format= --separator= --equal-width -#")},
		{name: "sleep", operands: operandsText, any: true},
		{name: "basename", operands: operandsText, any: true, table: newTable("-a -s= -z --multiple --suffix= --zero")},
		{name: "dirname", operands: operandsText, any: true, table: newTable("-z --zero")},
		{name: "which", operands: operandsText, table: newTable("-a -s --all --skip-alias --skip-functions --tty-only")},
		{name: "uname", operands: operandsNone, table: newTable(`-a -s -n -r -v -m -p -i -o --all --kernel-name --nodename
			--kernel-release --kernel-version --machine --processor --hardware-platform --operating-system`)},
		{name: "whoami", operands: operandsNone},
		{name: "id", operands: operandsText, table: newTable("-a -Z -g -G -n -r -u -z --context --group --groups --name --real --user --zero")},
		{name: "date", operands: operandsText, table: newTable(`-u --utc --universal !-d= !--date= !-f= !--file= !-I=? !--iso-8601=? !-R
			!--rfc-email !--rfc-3339= !-r= !--reference= !-s= !--set= !--debug --resolution`), check: checkDate},
		{name: "hostname", operands: operandsNone, table: newTable(`!-a !-A !-b !-d !-f !-F= !-i !-I !-s !-y !--alias !--all-fqdns !--boot
			!--domain !--fqdn !--long !--file= !--ip-address !--all-ip-addresses !--short !--yp !--nis`)},
	}
}

func filePrograms() []vettedProgram {
	return []vettedProgram{
		{name: "ls", operands: operandsFiles, table: newTable(`-# -a -A -b -B -c -C -d -D -f -F -g -G -h -H -i -I= -k -l -L -m -n -N -o -p -q
			-Q -r -R -s -S -t -T= -u -U -v -w= -x -X -Z -1 --all --almost-all --author --escape --block-size= --ignore-backups --color=?
			--directory --dired --classify=? --file-type --format= --full-time --group-directories-first --no-group --human-readable
			--si --dereference --dereference-command-line --dereference-command-line-symlink-to-dir --hide= --hyperlink=?
			--indicator-style= --inode --ignore= --kibibytes --numeric-uid-gid --literal --hide-control-chars --show-control-chars
			--quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= --context --zero`)},
		{name: "cat", operands: operandsFiles, table: newTable(`-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends
			--number --squeeze-blank --show-tabs --show-nonprinting`)},
		{name: "head", operands: operandsFiles, table: newTable(`-# -c= -n= -q -v -z --bytes= --lines= --quiet --silent --verbose
			--zero-terminated`)},
		{name: "tail", operands: operandsFiles, table: newTable(`-# -c= -f -F -n= -q -s= -v -z --bytes= --follow=? --lines=
			--max-unchanged-stats= --pid= --quiet --silent --retry --sleep-interval= --verbose --zero-terminated`)},
		{name: "tac", operands: operandsFiles, table: newTable("-b -r -s= --before --regex --separator=")},
		{name: "nl", operands: operandsFiles, table: newTable(`-b= -d= -f= -h= -i= -l= -n= -p -s= -v= -w= --body-numbering=
			--section-delimiter= --footer-numbering= --header-numbering= --line-increment= --join-blank-lines= --number-format=
			--no-renumber --number-separator= --starting-line-number= --number-width=`)},
		{name: "stat", operands: operandsFiles, table: newTable(`-L -f -c= -t --dereference --file-system --cached= --format= --printf=
			--terse`)},
		{name: "df", operands: operandsFiles, table: newTable(`-a -B= -h -H -i -k -l -P -t= -T -x= --all --block-size= --human-readable --si
			--inodes --local --no-sync --output=? --portability --sync --total --type= --print-type --exclude-type=`)},
		{name: "du", operands: operandsFiles, table: newTable(`-0 -a -B= -b -c -d= -D -h -H -k -L -l -m -P -S -s -t= -X=@ -x --null --all
			--apparent-size --block-size= --bytes --total --dereference-args --max-depth= !--files0-from=@ --human-readable --inodes
			--dereference --count-links --no-dereference --separate-dirs --si --summarize --threshold= --time=? --time-style=
			--exclude-from=@ --exclude= --one-file-system`)},
		{name: "wc", operands: operandsFiles, table: newTable(`-c -m -l -L -w --bytes --chars --lines --max-line-length --words
			!--files0-from=@ --total=`)},
		{name: "cmp", operands: operandsFiles, table: newTable(`-b -i= -l -n= -s --print-bytes --ignore-initial= --verbose --bytes= --quiet
			--silent`)},
		{name: "comm", operands: operandsFiles, table: newTable(`-1 -2 -3 -z --check-order --nocheck-order --output-delimiter= --total
			--zero-terminated`)},
		{name: "sha256sum", operands: operandsFiles, table: newTable(`-b -c -t -w -z --binary --check --tag --text --zero --ignore-missing
			--quiet --status --strict --warn`)},
		{name: "realpath", operands: operandsFiles, table: newTable(`-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing
			--logical --physical --quiet --relative-to=@ --relative-base=@ --strip --no-symlinks --zero`)},
		{name: "readlink", operands: operandsFiles, table: newTable(`-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing
			--canonicalize-missing --no-newline --quiet --silent --verbose --zero`)},
		{name: "file", operands: operandsFiles, table: newTable(`-b !-C !-c -e= !-f=@ -F= -h -i -k -L !-m= -n -N -0 -r -p --brief !--compile
			!--checking-printout --exclude= !--files-from=@ --separator= --no-dereference --mime --mime-type --mime-encoding
			--keep-going --dereference !--magic-file= --no-buffer --no-pad --print0 --raw --preserve-date --extension --apple`)},
		{name: "tree", operands: operandsFiles, table: newTable(`-a -d -l -f -x -L= -P= -I= -q -N -Q -p -u -g -s -h -D -F -v -t -c -U -r -i -A
			-S -n -C -X -J !-o= !-R !--fromfile --noreport --prune --dirsfirst --matchdirs --ignore-case --du --si --inodes --device
			--filelimit= --charset= --timefmt= --sort=? --gitignore`)},
		{name: "hexdump", operands: operandsFiles, table: newTable(`-b -c -C -d -e= !-f=@ -L=? -n= -o -s= -v -x --one-byte-octal
			--one-byte-char --canonical --two-bytes-decimal --format= !--format-file=@ --color=? --length= --two-bytes-octal --skip=
			--no-squeezing --two-bytes-hex`)},
		{name: "diff", operands: operandsFiles, check: checkRecursiveDiff, table: newTable(`-# -q -s -c -C= -u -U= -e -n -y -W= -p -F= -t -T !-l -r -N -x=
			!-X=@ -S= -i -E -Z -b -w -B -I= -a -d -D= -L= --normal --brief --report-identical-files --context=? --unified=? --ed --rcs
			--side-by-side --width= --left-column --suppress-common-lines --show-c-function --show-function-line= --label=
			--expand-tabs --initial-tab --tabsize= --suppress-blank-empty --recursive --no-dereference --new-file
			--unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case --exclude= !--exclude-from=@
			--starting-file= !--from-file=@ !--to-file=@ --ignore-case --ignore-tab-expansion --ignore-trailing-space
			--ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr
			--ifdef= --GTYPE-group-format= --line-format= --old-line-format= --new-line-format= --unchanged-line-format=
			--old-group-format= --new-group-format= --unchanged-group-format= --changed-group-format= --minimal --horizon-lines=
			--speed-large-files --color=? --palette= !--paginate`)},
		{name: "tar", operands: operandsText, check: checkTar, table: tarOptions()},
	}
}

func searchPrograms() []vettedProgram {
	const grepOptions = `-# -E -F -G -P -e= -f=@ -i -y -w -x -z -s -v -m= -b -n -H -h -o -q -a -I -d= -D= -r -R -L -l -c -T -Z -B= -A= -C= -u -U
		--extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp= --file=@ --ignore-case --no-ignore-case
		--word-regexp --line-regexp --null-data --no-messages --invert-match --max-count= --byte-offset --line-number
		--line-buffered --with-filename --no-filename --label= --only-matching --quiet --silent --binary-files= --text
		--directories= --devices= --recursive --dereference-recursive --include= --exclude= --exclude-from=@ --exclude-dir=
		--files-without-match --files-with-matches --count --initial-tab --null --before-context= --after-context= --context=
		--color=? --colour=? --binary --unix-byte-offsets --group-separator= --no-group-separator`
	return []vettedProgram{
		{name: "grep", operands: operandsText, table: newTable(grepOptions), check: checkGrep},
		{name: "egrep", operands: operandsText, table: newTable(grepOptions), check: checkGrep},
		{name: "fgrep", operands: operandsText, table: newTable(grepOptions), check: checkGrep},
		{name: "rg", operands: operandsText, check: checkRipgrep, table: newTable(`-# -e= -f=@ -A= -B= -C= -E= -f=@ -F -H -I -L -M= -N -P -S -T= -U -V -a -b -c -d= -g= -h -i
			-j= -l -m= -n -o -p -q -r= -s -t= -u -v -w -x !-z -0 --regexp= --file=@ --after-context= --before-context= --context=
			--context-separator= --no-context-separator --encoding= --no-encoding --fixed-strings --no-fixed-strings --with-filename
			--no-filename --follow --no-follow --max-columns= --max-columns-preview --no-line-number --pcre2 --no-pcre2 --smart-case
			--type-not= --multiline --no-multiline --multiline-dotall --text --no-text --byte-offset --no-byte-offset --count
			--count-matches --max-depth= --maxdepth= --glob= --iglob= --glob-case-insensitive --ignore-case --case-sensitive --threads= --files
			--files-with-matches --files-without-match --max-count= --line-number --only-matching --passthru --pretty --quiet
			--replace= --type= --type-list --type-add= --type-clear= --unrestricted --invert-match --word-regexp --line-regexp
			!--search-zip --no-search-zip --null --null-data --binary --no-binary --block-buffered --line-buffered --color= --colors= --column --no-column
			--crlf --no-crlf --debug --trace --dfa-size-limit= --regex-size-limit= --engine= --field-context-separator=
			--field-match-separator= --heading --no-heading --hidden --no-hidden --hyperlink-format= !--hostname-bin= !--pre=
			!--pre-glob= --no-pre --ignore --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global
			--no-ignore-messages --no-ignore-parent --no-ignore-vcs --ignore-file=@ --ignore-file-case-insensitive --include-zero
			--json --no-json --max-filesize= --messages --no-messages --mmap --no-mmap --no-config --no-unicode --unicode --one-file-system
			--path-separator= --require-git --no-require-git --sort= --sortr= --stats --no-stats --stop-on-nonmatch --trim --no-trim
			--vimgrep`)},
	}
}

func textPrograms() []vettedProgram {
	return []vettedProgram{
		{name: "cut", operands: operandsFiles, table: newTable(`-b= -c= -d= -f= -n -s -z --bytes= --characters= --delimiter= --fields=
			--complement --only-delimited --output-delimiter= --zero-terminated`)},
		{name: "tr", operands: operandsText, table: newTable("-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1")},
		{name: "column", operands: operandsFiles, table: newTable(`-t -s= -o= -x -c= -n= -N= -J -R= -T= -H= -W= -E= -O= -d -e -L -r= -i= -p= --table
			--separator= --output-separator= --fillrows --output-width= --table-name= --table-columns= --json --table-right=
			--table-truncate= --table-hide= --table-wrap= --table-noextreme= --table-order= --table-noheadings
			--table-header-repeat --keep-empty-lines --table-empty-lines`)},
		{name: "sort", operands: operandsFiles, table: newTable(`-b -c -C -d -f -g -h -i -k= -m -M -n !-o= -r -R -s -S= -t= !-T= -u -V -z
			--ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort
			--human-numeric-sort --numeric-sort --random-sort --random-source=@ --reverse --sort= --version-sort --batch-size=
			--check=? !--compress-program= --debug !--files0-from=@ --key= --merge !--output= --stable --buffer-size=
			--field-separator= !--temporary-directory= --parallel= --unique --zero-terminated`)},
		{name: "uniq", operands: operandsFiles, check: checkUniq, table: newTable(`-# -c -d -D -f= -i -s= -u -w= -z --count --repeated --all-repeated=?
			--skip-fields= --group=? --ignore-case --skip-chars= --unique --zero-terminated --check-chars=`)},
		{name: "sed", operands: operandsText, check: checkSed, table: newTable(`-n -E -r -e= --quiet --silent --regexp-extended --expression= !-i=?
			!--in-place=? !-f=@ !--file=@ !-s !--separate !-u !--unbuffered !-z !--null-data !-l= !--line-length= !--posix !--debug
			!--sandbox !--follow-symlinks !-b !--binary`)},
		{name: "awk", operands: operandsText, check: checkAwk, table: newTable(awkOptions)},
		{name: "gawk", operands: operandsText, check: checkAwk, table: newTable(awkOptions)},
		{name: "mawk", operands: operandsText, check: checkAwk, table: newTable(awkOptions)},
		{name: "jq", operands: operandsText, check: checkJq, table: jqTable()},
	}
}

const awkOptions = `-F= -v= --field-separator= --assign= !-f=@ !--file=@ !-e= !--source= !-i= !--include= !-l= !--load= !-E=@ !--exec=@
	!-o=? !--pretty-print=? !-D=? !--debug=? !-p=? !--profile=? !-d=? !--dump-variables=? !-W=`

func jqTable() *optionTable {
	t := newTable(`-n -r -j -a -s -R -c -C -M -S -e -h -V --null-input --raw-output --raw-output0 --join-output --ascii-output --slurp
		--raw-input --compact-output --color-output --monochrome-output --sort-keys --exit-status --tab --indent= --unbuffered
		--stream --stream-errors --seq --arg=2 --argjson=2 --args --jsonargs --binary -b --build-configuration
		!-f=@ !--from-file=@ !-L= !--library-path= !--rawfile=2 !--slurpfile=2 !--argfile=2 !--run-tests=?`)
	t.exact = true
	return t
}

// cdOptions are the options of cd.
var cdOptions = lazyTable("-L -P -e -@")

// namingOptions are the options of the builtins whose operands are names of variables.
func namingOptions(builtin string) *optionTable {
	switch builtin {
	case "read":
		return newTable("-r -s -e -p= -t= -n= -N= -d= -u= -i= -a=$")
	case "unset":
		return newTable("-v -f -n")
	}
	return newTable("-n -f -p=$") // wait
}
