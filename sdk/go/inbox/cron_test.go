package inbox

import (
	"strings"
	"testing"
	"time"
)

func TestAnExpressionFiresAtItsTimes(t *testing.T) {
	for _, one := range []struct{ expression, zone, after, want string }{
		{"*/15 * * * *", "UTC", "2026-03-01T10:07:30Z", "2026-03-01T10:15:00Z"},
		{"30 2 * * mon-fri", "UTC", "2026-03-06T02:30:00Z", "2026-03-09T02:30:00Z"},
		{"0 0 29 2 *", "UTC", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 12 13 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-03-06T12:00:00Z"}, // the 13th or a Friday
		{"0 9 * * 7", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T09:00:00Z"},
		{"5/20 * * * *", "UTC", "2026-03-01T10:30:00Z", "2026-03-01T10:45:00Z"},
		{"@monthly", "UTC", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"},
		{"0 8 * * *", "Europe/Berlin", "2026-07-01T05:00:00Z", "2026-07-01T06:00:00Z"},
		// Clocks go forward from 2:00 to 3:00, and back from 3:00 to 2:00.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"},
		{"15 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", "2026-03-29T01:15:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, one.after)
		if err != nil {
			t.Fatal(err)
		}
		next, err := nextRun(one.expression, one.zone, after)
		if err != nil {
			t.Errorf("%s: %v", one.expression, err)
			continue
		}
		if got := next.Format(time.RFC3339); got != one.want {
			t.Errorf("%s in %s after %s: %s, want %s", one.expression, one.zone, one.after, got, one.want)
		}
	}
}

func TestAMistakeIsNamed(t *testing.T) {
	for expression, want := range map[string]string{
		"* * * *":     "it needs 5",
		"60 * * * *":  `"60" must be a number from 0 to 59`,
		"*/0 * * * *": "must be a number from 1",
		"9-5 * * * *": "begins after its end",
		"0 0 31 2 *":  "never fires",
		"0 * 31 2 *":  "never fires",
	} {
		if _, err := nextRun(expression, "UTC", time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", expression, err, want)
		}
	}
	if _, err := nextRun("* * * * *", "Mars/Olympus", time.Now()); err == nil || !strings.Contains(err.Error(), "Mars/Olympus") {
		t.Errorf("an unknown time zone: %v", err)
	}
}
