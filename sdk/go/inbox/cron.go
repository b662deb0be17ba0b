package inbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestGap is more than the time between two 29ths of February around a year like 2100.
const longestGap = 9 * 366 // days

// cron is a parsed expression with five fields.
type cron struct {
	minutes, hours, days, months, weekdays []int
	// If both fields are restricted, a day matches if it matches one of them.
	anyDay, anyWeekday bool
}

var (
	errNever   = errors.New("inbox: the cron expression never fires")
	shorthands = map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
	monthNames   = []string{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// parseCron reads an expression such as "30 2 * * mon-fri".
func parseCron(text string) (*cron, error) {
	expression := strings.ToLower(strings.TrimSpace(text))
	if full, ok := shorthands[expression]; ok {
		expression = full
	}
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return nil, fmt.Errorf("inbox: the cron expression %q has %d fields: it needs 5, minute to weekday", text, len(fields))
	}
	c := &cron{anyDay: strings.HasPrefix(fields[2], "*"), anyWeekday: strings.HasPrefix(fields[4], "*")}
	for n, field := range []struct {
		into        *[]int
		least, most int
		names       []string
	}{
		{&c.minutes, 0, 59, nil}, {&c.hours, 0, 23, nil}, {&c.days, 1, 31, nil}, {&c.months, 1, 12, monthNames},
		{&c.weekdays, 0, 7, weekdayNames},
	} {
		values, err := parseField(fields[n], field.least, field.most, field.names)
		if err != nil {
			return nil, fmt.Errorf("inbox: the cron expression %q: %w", text, err)
		}
		*field.into = values
	}
	if slices.Contains(c.weekdays, 7) { // Sunday is 0 and 7
		c.weekdays = append(c.weekdays, 0)
	}
	return c, nil
}

// parseField returns the values of a field: a list of *, numbers, names and ranges, each with an optional step.
func parseField(text string, least, most int, names []string) ([]int, error) {
	var values []int
	for _, part := range strings.Split(text, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			number, err := strconv.Atoi(stepText)
			if err != nil || number < 1 {
				return nil, fmt.Errorf("the step of %q must be a number from 1", part)
			}
			step = number
		}
		first, last := least, most
		if span != "*" {
			from, to, isRange := strings.Cut(span, "-")
			var err error
			if first, err = fieldValue(from, least, most, names); err != nil {
				return nil, err
			}
			last = first
			if isRange {
				if last, err = fieldValue(to, least, most, names); err != nil {
					return nil, err
				}
			} else if hasStep {
				last = most
			}
		} else if most == 7 {
			last = 6
		}
		if first > last {
			return nil, fmt.Errorf("the range %q begins after its end", part)
		}
		for value := first; value <= last; value += step {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

func fieldValue(text string, least, most int, names []string) (int, error) {
	if n := slices.Index(names, text); n >= 0 && text != "" {
		return n, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		return 0, fmt.Errorf("%q must be a number from %d to %d", text, least, most)
	}
	return value, nil
}

// next returns the first matching time after a time, in a time zone. A local time that is skipped when clocks go
// forward fires at the end of the gap; a local time that occurs twice fires only the first time. An expression that
// matches every hour is treated as an interval: nothing extra fires after the gap, and both passes of a repeated hour
// fire.
func (c *cron) next(after time.Time, zone *time.Location) (time.Time, error) {
	if len(c.hours) == 24 {
		return c.nextOfInterval(after, zone)
	}
	year, month, day := after.In(zone).Date()
	for n := range longestGap {
		date := time.Date(year, month, day+n, 12, 0, 0, 0, time.UTC) // stands for the day: its zone does not matter
		if !c.fits(date) {
			continue
		}
		for _, hour := range c.hours {
			for _, minute := range c.minutes {
				if at := localTime(date, hour, minute, zone); at.After(after) {
					return at.UTC(), nil
				}
			}
		}
	}
	return time.Time{}, errNever
}

func (c *cron) nextOfInterval(after time.Time, zone *time.Location) (time.Time, error) {
	at := after.Truncate(time.Minute).Add(time.Minute)
	for end := after.AddDate(0, 0, longestGap); at.Before(end); {
		local := at.In(zone)
		if !c.fits(local) {
			at = time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, zone)
			continue
		}
		if slices.Contains(c.minutes, local.Minute()) {
			return at.UTC(), nil
		}
		at = at.Add(time.Minute)
	}
	return time.Time{}, errNever
}

func (c *cron) fits(date time.Time) bool {
	if !slices.Contains(c.months, int(date.Month())) {
		return false
	}
	day, weekday := slices.Contains(c.days, date.Day()), slices.Contains(c.weekdays, int(date.Weekday()))
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// localTime returns the first moment at which clocks in the zone show this time, or the end of the gap that skips it.
func localTime(date time.Time, hour, minute int, zone *time.Location) time.Time {
	at := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, zone)
	start, end := at.ZoneBounds()
	if at.Hour() != hour || at.Minute() != minute { // skipped: Date moved it to one of the sides of the gap
		if shown := at.Hour()*60 + at.Minute(); shown > hour*60+minute || at.Day() != date.Day() && shown < 12*60 {
			return start
		}
		return end
	}
	if !start.IsZero() { // just before the transition at start the clocks may have shown the same time
		_, before := start.Add(-time.Second).Zone()
		_, now := at.Zone()
		if earlier := at.Add(time.Duration(now-before) * time.Second); before > now && earlier.Before(start) {
			return earlier
		}
	}
	return at
}
