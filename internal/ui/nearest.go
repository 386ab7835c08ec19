package ui

import "strings"

// Nearest is the name that somebody meant who wrote a word: the one that is the fewest slips
// of the pen away, if they are few for its length, or the first that begins with it. Else it
// is empty: a guess that is wrong is worse than none.
func Nearest(word string, names []string) (best string) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	word = plain(word)
	if len(word) < 2 || len(word) > 40 {
		return ""
	}
	fewest := min(3, len(word)/3) + 1
	for _, name := range names {
		d := distance(word, plain(name))
		// Of two letters, one may be missing, or the two swapped.
		short := len(word) == 2 && d == 1 && (len(name) == 3 || len(name) == 2 && word[0] == plain(name)[1])
		if d < fewest || best == "" && short {
			best, fewest = name, d
		}
	}
	for _, name := range names {
		if best == "" && strings.HasPrefix(plain(name), word) {
			best = name
		}
	}
	return best
}

// distance is Levenshtein's, with swapped neighbours counted once.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
				continue
			}
			rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
