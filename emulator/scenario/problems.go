package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// Problem is one thing wrong with what the user wrote.
type Problem struct {
	Place string // "file.yaml:3:12", "--nodes", or "" where no key was given
	Text  string // key, offending value and what is allowed
}

func (p Problem) Error() string {
	if p.Place == "" {
		return p.Text
	}
	return p.Place + ": " + p.Text
}

// Problems are all problems found, in the order of the input.
type Problems []Problem

func (ps Problems) Error() string {
	if len(ps) == 1 {
		return ps[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d errors in the scenario:", len(ps))
	for _, p := range ps {
		b.WriteString("\n  ")
		b.WriteString(p.Error())
	}
	return b.String()
}

// err returns ps as an error, nil where there is none.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Nearest returns the candidate that word is most likely a typing error of,
// or "". A candidate counts where less than about a third of it differs, or
// where word is its beginning or end (loss of link-loss).
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 1<<30
	for _, c := range candidates {
		d := smetrics.WagnerFischer(strings.ToLower(word), c, 1, 1, 1)
		if d < bestDistance && d <= (len(c)+2)/3 {
			best, bestDistance = c, d
		}
	}
	if bestDistance > 1 && word != "" {
		part := func(c string) bool { return strings.HasSuffix(c, "-"+word) || strings.HasPrefix(c, word+"-") }
		if i := slices.IndexFunc(candidates, part); i >= 0 {
			return candidates[i]
		}
	}
	return best
}

func didYouMean(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	if s := Nearest(word, candidates); s != "" {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return ""
}

// Origin tells where the value of each key came from: a place in a file or
// the flag. Keys left at their default are missing.
type Origin map[string]string

// at returns the place to name for a key.
func (o Origin) at(key string) string {
	if p, ok := o[key]; ok {
		return p
	}
	return "default"
}

// item returns the place of element i of a list key, where known.
func (o Origin) item(key string, i int) string {
	if p, ok := o[fmt.Sprintf("%s[%d]", key, i)]; ok {
		return p
	}
	return o.at(key)
}

// has reports whether the user gave the key.
func (o Origin) has(key string) bool { _, ok := o[key]; return ok }

// orList joins alternatives for a sentence: "a, b or c".
func orList(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
