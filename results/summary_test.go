package results

import "testing"

func TestNum(t *testing.T) {
	for n, want := range map[Number]string{0.12345: "0.1235", 402.24: "402.2", 999.96: "1000", 6733.4: "6733", 14410: "14410", -14410: "-14410"} {
		if got := num(n); got != want {
			t.Errorf("num(%v) = %q, want %q", float64(n), got, want)
		}
	}
}
