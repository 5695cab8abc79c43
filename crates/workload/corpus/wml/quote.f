set $n="unclosed
