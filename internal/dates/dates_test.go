package dates

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestIn: what texts say on Thursday, 15 June 2023.
func TestIn(t *testing.T) {
	at := time.Date(2023, 6, 15, 22, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":                    "",
		"nothing of the kind": "",
		"I saw her yesterday": "14 June 2023",
		"Yesterday, and the day before yesterday": "14 June 2023 | 13 June 2023",
		"last night was fun":                      "14 June 2023",
		"this morning":                            "15 June 2023",
		"tomorrow or the day after tomorrow":      "16 June 2023 | 17 June 2023",
		"last Friday":                             "9 June 2023",
		"last Thursday":                           "8 June 2023",
		"next thursday":                           "22 June 2023",
		"next Fri":                                "16 June 2023",
		"this Sunday":                             "18 June 2023",
		"on Fri at five":                          "Friday",
		"she sat in the sun":                      "",
		"last week":                               "June 2023",
		"next month, not last month":              "July 2023 | May 2023",
		"last year":                               "2022",
		"last weekend":                            "10 June 2023 11 June 2023",
		"two weeks ago":                           "May 2023 June 2023",
		"a couple of days ago":                    "13 June 2023",
		"a few months ago":                        "March 2023",
		"10 years ago":                            "2013",
		"3 days from now":                         "18 June 2023",
		"an hour ago":                             "",
		"Dec 3rd":                                 "3 December 2023",
		"Jan was cold":                            "January",
		"12 May":                                  "12 May 2023",
		"12th of May 2022":                        "12 May 2022",
		"May 12":                                  "12 May 2023",
		"May 12th, 2021":                          "12 May 2021",
		"you may 12 times":                        "",
		"in may 2023":                             "May 2023",
		"May 2022":                                "May 2022",
		"last May":                                "May 2023",
		"last July":                               "July 2022",
		"next June":                               "June 2024",
		"we march 3 miles":                        "",
		"2023-05-12":                              "12 May 2023",
		"2023/05/12":                              "12 May 2023",
		"2023-05":                                 "May 2023",
		"31.12.2022":                              "31 December 2022",
		"version 1.2.3":                           "",
		"in 2019":                                 "2019",
		"room 2019":                               "",
		"31 February, 2023-02-31, 99 May":         "",
		"December 30":                             "30 December 2022",
		"gestern und heute":                       "14 June 2023 | 15 June 2023",
		"вчера":                                   "14 June 2023",
		"我昨天去了公园":                                 "14 June 2023",
		"2023年5月7日我去了":                            "7 May 2023",
		"2023年5月":                                 "May 2023",
		"9999 years ago, 300 months ago":          "June 1998",
		"last last week":                          "June 2023",
		"last":                                    "",
		"5":                                       "",
		"5th":                                     "",
		"5 of":                                    "",
	} {
		var got []string
		for _, m := range In(text, at) {
			got = append(got, m.Words)
			if !m.From.IsZero() && !m.From.Before(m.To) {
				t.Errorf("%q: %v to %v", text, m.From, m.To)
			}
		}
		if got := strings.Join(got, " | "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestInIsBounded: a text of many dates ends, and times at the ends of the calendar give nothing
// outside it.
func TestInIsBounded(t *testing.T) {
	if n := len(In(strings.Repeat("yesterday ", 1000), time.Unix(0, 0))); n != MostMentions {
		t.Errorf("%d mentions, want %d", n, MostMentions)
	}
	for _, y := range []int{1, 2, 9998, 9999} {
		for _, m := range In("yesterday tomorrow last year next year 9 years ago May 12 next month last week", time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)) {
			if m.From.Year() < 1 || m.To.Year() > 9999 {
				t.Errorf("in %d: %+v", y, m)
			}
		}
	}
}

func FuzzIn(f *testing.F) {
	for _, s := range []string{"12 May 2023", "2023年5月7日", "a couple of", "last ", "31.12.", "the day after", "5 th of"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, text string) { In(text, time.Unix(1e9, 0)) })
}

func BenchmarkIn(b *testing.B) {
	text := strings.Repeat("We talked about the garden for a while, and nobody knew when the roses were planted. ", 12)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		In(text, time.Unix(1e9, 0))
	}
}

// TestNamed verifies which dates are found without a day to count from, and that a part which a text
// does not say is 0.
func TestNamed(t *testing.T) {
	for text, want := range map[string]string{
		"On 7 May 2023, on May 8th, 2023 and 2023-06-09; in July 2024.": "[{2023 5 7} {2023 5 8} {2023 6 9} {2024 7 0}]",
		"Back in 2016, on May 7th or 3rd of June, I may 5 times.":       "[{2016 0 0} {0 5 7} {0 6 3}]",
		"29 February, 30 February and 29 Feb 2023":                      "[{0 2 29}]",
		"31.12.2023, 2023/02/01 and 2023年5月7日":                          "[{2023 12 31} {2023 2 1} {2023 5 7}]",
		"last May 2023": "[{2023 5 0}]",
		"Yesterday, last Friday, two weeks ago, in 3 days, next June, Fri, Jan, today, 昨天": "[]",
		"1500 people, 99 May 2023, 2023-13-01":                                             "[]",
	} {
		if got := fmt.Sprint(Named(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if many := strings.Repeat("in 2016, ", 100); len(Named(many)) != MostMentions {
		t.Errorf("%d of 100", len(Named(many)))
	}
}
