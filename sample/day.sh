#!/bin/bash
# One activity of a day at the computer: `day NAME ARG...`. Runs inside the image, as the user "dev" or, for
# the system's own work, as root. Plan lines come from plan.py.
set -e
name=$1
shift
tree=$HOME/tree

save() { # as editors do: write beside, sync, rename
    cat >"$1~"
    sync "$1~"
    mv "$1~" "$1"
}

case $name in
login) # a login shell and what one types first
    bash -lc 'id; ls -la ~; df /; date; uname -a; ls ~/notes | head; history | tail; tail -n 40 /var/log/syslog'
    ;;
script) # a Python tool that imports these modules
    python3 -c "import $(echo "$@" | tr ' ' ','); print('ok')"
    ;;
numbers) # numpy, saving a result
    python3 - "$1" <<'PY'
import sys, os, numpy as np
rng = np.random.default_rng(int(sys.argv[1]))
a = rng.normal(size=(300, 300)); u, s, v = np.linalg.svd(a)
np.save(os.path.expanduser("~/result.npy"), s); print(np.fft.fft(s)[:3])
PY
    ;;
status) cd "$tree" && git status --short && git branch -a && git log --oneline -n 10 ;;
log) # syslogd and friends
    for f in syslog auth.log kern.log; do
        for i in $(seq "$1"); do echo "$(date) sample $f: message $i of today's work"; done >>/var/log/$f
        sync /var/log/$f
    done
    ;;
history) cd "$tree" && git log --stat -n 25 -- "$1" | tail -n 40 ;;
diff) cd "$tree" && git diff --stat "main..$1" && git diff "main...$1" | wc -l ;;
checkout) # try a topic branch, look at it, come back
    cd "$tree" && git checkout -q "$1" && git diff --stat main~3 | tail -n 1 && git checkout -q main
    ;;
commit) # edit these many files under a folder and commit
    cd "$tree"
    find "$1" -type f -size -40k | sort | awk -v n="$2" -v k="$3" 'NR % 5 == k % 5 && c++ < n' | while read -r f; do
        { cat "$f"; echo "edited $3"; } | save "$f"
    done
    git add -A && { git diff --cached --quiet || git commit -q -m "Edit $1 ($3)"; }
    ;;
blame) cd "$tree" && for f in "$@"; do git blame -- "$f" | wc -l; done ;;
compile)
    cd ~/proj
    for f in "$@"; do gcc -O2 -Wall -c "$f.c" -o "$f.o" || true; done
    make -s && ./prog
    ;;
cxx) cd ~/proj && g++ -O1 "$1.cc" -o "$1" && "./$1" ;;
edit) # vim with its defaults: syntax files, plugins; appends a line and saves
    cp --preserve "$1" "$1.bak"
    vim -N -u /usr/share/vim/vim90/defaults.vim -es +'syntax on' +'normal Go// One more line.' +'wq' "$1" || true
    ;;
emacs) # opens a file in its mode and saves it
    emacs --batch "$1" --eval '(progn (font-lock-mode 1) (goto-char (point-max)) (insert "\n") (save-buffer))'
    ;;
man) for p in "$@"; do man -P cat "$p" | tail -n 3; done ;;
less) less "$1" </dev/null | wc ;;
perl) # documentation and a text report
    perldoc -T "$1" 2>/dev/null | head -n 5 || pod2text "$(perl -e "require $1; (\$m = '$1') =~ s,::,/,g; print \$INC{\"\$m.pm\"}")" | head -n 5
    perl -MData::Dumper -MTime::Local -MFile::Find -MList::Util=sum -MText::Wrap -e '
        my %w; find(sub { if (-f && open my $f, "<", $_) { $w{$_}++ for map { split } <$f> } }, "$ENV{HOME}/notes");
        print sum(values %w), "\n"'
    ;;
grep) cd "$tree" && grep -rIl "$1" "$2" | wc -l ;;
find) cd "$tree" && find "$1" -mtime -3 -o -size +60k | wc -l ;;
packages) # what is installed, and from where
    dpkg -l | wc -l
    dpkg -L "$1" | wc -l
    dpkg -S "$2" || true
    apt-cache policy "$1" | head -n 4
    ;;
database) # a music player: looks up, counts, and notes what was played
    sqlite3 ~/tracks.db "select count(*) from track where artist like '$1%'; select title from track where played > 99$2 limit 20;
        select notes from track where id in ($2, $2 * 7 % 90000, $2 * 31 % 90000, $2 * 101 % 90000);
        update track set played = played + 1 where id = $2; update track set played = $2 where id = $2 * 13 % 90000;"
    ;;
pictures) # a web page of these photographs
    cd ~/pictures
    mkdir -p ~/web
    for p in "$@"; do convert "$p.png" -resize 320x240 -unsharp 0x1 -quality 85 ~/web/"$p".jpg; done
    ;;
ruby) ruby -rjson -rerb -rset -ryaml -rfileutils -ropen3 -rdigest -e 'puts Dir[File.expand_path("~/notes/*.md")].map { |f| Digest::SHA256.file(f).hexdigest }.to_json.size' ;;
graph) cd ~/graphs && dot -Tsvg "$1.dot" -o "$1.svg" && dot -Tpng "$1.dot" -o "$1.png" ;;
paper) man -t "$1" | ps2pdf - ~/paper.pdf ;;
mail) # new mail arrives, is read
    for i in $(seq "$1"); do
        printf 'From user%s@example.org\nSubject: news %s\n\n' "$i" "$1"
        head -c 6000 ~/notes/*-0"$(printf %02d "$i")".md
    done >>~/mbox
    sync ~/mbox
    grep -c '^From ' ~/mbox
    tail -n 200 ~/mbox | gawk '/^Subject/ { print $2 }'
    ;;
notes) # writes some notes, looks through all
    for i in $(seq "$2"); do { date; gawk -v s="$i" 'NR % 3 == s % 3' ~/notes/*-01*.md; } | save ~/notes/"$1-$i.md"; done
    wc -w ~/notes/*.md | tail -n 1
    ;;
cron) # the night's upkeep: old backups, and a look over the user's folders
    rm -f /home/dev/*/*.bak
    find /home/dev/notes /home/dev/proj /etc -xdev -type f -mtime -1 | wc -l
    ;;
rst) cd ~/papers && for p in "$@"; do rst2html "$p.rst" "$p.html"; done ;;
highlight) mkdir -p ~/web && pygmentize -l c -f html -o ~/web/code.html "$HOME/proj/$1.c" ;;
web) mkdir -p ~/web && rst2html ~/papers/"$1".rst ~/web/"$1".html && w3m -dump ~/web/"$1".html | tail -n 5 ;;
php) php -r 'echo json_encode(array_map("filesize", glob(getenv("HOME") . "/papers/*.rst"))), "\n";' ;;
tcl) echo 'package require http; package require msgcat; puts [clock format [clock seconds]]; foreach f [glob ~/graphs/*.dot] { puts [file size $f] }' | tclsh ;;
backup) tar -czf ~/backup.tgz -C ~ "$@" && rm -f ~/backup.old.tgz && ls -l ~/backup.tgz ;;
dpkgi) dpkg -i "/var/tmp/debs/$1"_*.deb && "$1" --version | head -n 1 ;;
*) echo "day: unknown activity $name" >&2; exit 2 ;;
esac
