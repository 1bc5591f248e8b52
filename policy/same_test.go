package policy

import (
	"strings"
	"testing"
)

// TestSaySame: texts that differ in their writing alone say the same.
func TestSaySame(t *testing.T) {
	for _, pair := range [][2]string{
		{"The user likes to swim on Sunday mornings", "The user likes to swim on Sunday mornings."},
		{"the user likes to swim on sunday mornings at the lake", "The user likes to swim on Sunday mornings at the lake"},
		{"I LIKE TEA", "i like tea"},
		{"I like  tea,\nand coffee", "I like tea and coffee!"},
		{"I don't eat fish", "I do not eat fish"},
		{"I'm a nurse; I can’t drive", "I am a nurse. I cannot drive"},
		{"She said \"yes\"", "She said “yes”"},
		{"Where is it?", "where is it ?!"},
		{"他喜欢喝咖啡,但是每天早上都喝一杯绿茶", "他喜欢喝咖啡，但是每天早上都喝一杯绿茶。"},
		{"東京に 住んでいます", "東京に住んでいます。"},
		{"Ich wohne in Berlin", "ich wohne in berlin."},
		{"¡Me gusta el té!", "me gusta el té"},
		{"Cafe\u0301 au lait", "Café au lait"},
		{"Мой пёс — овчарка", "мой пёс овчарка"},
		{"هل تحب الشاي؟", "هل تحب الشاي ؟"},
	} {
		if !SaySame(pair[0], pair[1]) {
			t.Errorf("%q and %q say the same: %q, %q", pair[0], pair[1], Saying(pair[0]), Saying(pair[1]))
		}
	}
}

// TestSayOther: what may mean something else is kept apart, though one sign differs.
func TestSayOther(t *testing.T) {
	for _, pair := range [][2]string{
		{"meeting at 9", "meeting at 8"},
		{"Anna is allergic to peanuts", "Anna is not allergic to peanuts"},
		{"I can eat gluten", "I can't eat gluten"},
		{"You cannot go", "You can not go"},
		{"Take 5 mg", "Take 5 Mg"},
		{"It draws 5 mW", "It draws 5 MW"},
		{"It is -5 outside", "It is 5 outside"},
		{"It is - 5 outside", "It is 5 outside"},
		{"It costs 1.5", "It costs 15"},
		{"It costs $5", "It costs €5"},
		{"between 9-5", "between 9 5"},
		{"at 10:30", "at 1030"},
		{"the plank has 5'", "the plank has 5\""},
		{"My blood type is O-", "My blood type is O+"},
		{"My blood type is O-", "My blood type is O"},
		{"He writes C", "He writes C++"},
		{"service A is down", "service a is down"},
		{"it is run by IT", "it is run by it"},
		{"we ask US", "we ask us"},
		{"I saw Mark there", "I saw mark there"},
		{"Ich kenne Sie", "Ich kenne sie"},
		{"you should rest", "you must rest"},
		{"You like tea.", "You like tea?"},
		{"it went well :)", "it went well :("},
		{"it went well:)", "it went well:("},
		{"it went well 👍", "it went well 👎"},
		{"use user_id", "use userid"},
		{"open README.md", "open readme.md"},
		{"host a.example.com", "host a.example.org"},
		{"we're here", "were here"},
		{"re-sign the lease", "resign the lease"},
		{"every day", "everyday"},
		{"x² is the area", "x2 is the area"},
		{"他不喜欢喝咖啡", "他喜欢喝咖啡"},
		{"pass --force", "pass force"},
		{"the rate is .5", "the rate is 5"},
		{"no, I go", "I go"},
	} {
		if SaySame(pair[0], pair[1]) {
			t.Errorf("%q and %q are taken for the same: %q", pair[0], pair[1], Saying(pair[0]))
		}
	}
}

// TestSayingOfAnything: no text makes it fail, and the form of a form is the form.
func FuzzSaying(f *testing.F) {
	for _, seed := range []string{"", "I'm 5'", "— 5", ":-(", "a,b", "\xff", "東京,tea"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		form := Saying(text)
		if Saying(text+" ") != form || Saying("\n"+text) != form {
			t.Errorf("spaces around %q change its form %q", text, form)
		}
		if strings.TrimSpace(form) != form {
			t.Errorf("the form %q of %q has spaces around it", form, text)
		}
	})
}

func BenchmarkSaying(b *testing.B) {
	text := "The user prefers dark mode in the editor and in the terminal, and doesn't like notifications after 6 pm."
	for b.Loop() {
		Saying(text)
	}
}
