package ui

import "strings"

// Nearest is the name that somebody meant who wrote a word: the one that is the fewest slips
// of the pen away, if they are few for its length, or the first that begins with it. Else it
// is empty: a guess that is wrong is worse than none.
func Nearest(word string, names []string) (best string) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	word = plain(word)
	if len(word) > 40 {
		return ""
	}
	fewest := min(3, len(word)/3) + 1
	for _, name := range names {
		if d := distance(word, plain(name)); d < fewest || best == "" && slipped(word, plain(name)) {
			best, fewest = name, d
		}
	}
	for _, name := range names {
		if best == "" && len(word) > 1 && strings.HasPrefix(plain(name), word) {
			best = name
		}
	}
	return best
}

// slipped says of a word of two letters whether it is the name with one missing, or with the
// two swapped. One that is wrong leaves too little to guess by.
func slipped(word, name string) bool {
	if len(word) != 2 || distance(word, name) != 1 {
		return false
	}
	return len(name) == 3 || len(name) == 2 && word[0] == name[1]
}

// distance is Levenshtein's, with swapped neighbours counted once.
func distance(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var before []int
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, prev, row = prev, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
