package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Importance by length alone takes "My name is Ada" for less than a long way of saying thanks. So a short text is asked
// whether it says anything: whether one of its words is none of those with which people only keep a talk going, in any
// language: greetings, thanks, assent, laughter, words of doubt, and the small words of grammar around them. A fact has a
// noun, a name, a number, an adjective or a verb of its own, and none of these stands in the lists below. What is not
// listed counts as content: a phrase that is kept costs a row, and a fact that goes is missed.

// longestPhrase bounds the texts that are asked, in bytes: a longer one has something to say.
const longestPhrase = 160

// hasContent reports whether a text says something beside keeping the talk going.
func hasContent(text string) bool {
	if len(text) > longestPhrase {
		return true
	}
	named := false // the word before says who or what somebody is
	words := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) }
	for word := range strings.FieldsFuncSeq(text, words) {
		small := strings.ToLower(word)
		if named && isName(word) || !isFiller(small) && word != "\ufe0f" {
			return true
		}
		named = copulas[small]
	}
	return false
}

// copulas are the words after which a capital letter begins a name: "I'm Will" and "Ich bin Mia" are facts.
var copulas = map[string]bool{
	"am": true, "m": true, "is": true, "s": true, "bin": true, "ist": true, "suis": true, "est": true, "soy": true, "es": true,
	"sou": true, "é": true, "sono": true, "è": true, "ben": true, "я": true, "это": true, "jestem": true,
}

// isName reports whether a word is written as a name is: one capital letter, and small ones.
func isName(word string) bool {
	first, size := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first) && size < len(word) && word[size:] == strings.ToLower(word[size:])
}

// isFiller reports whether a word in small letters only keeps a talk going.
func isFiller(word string) bool {
	if fillers[word] || laughs(word) {
		return true
	}
	if first, _ := utf8.DecodeRuneInString(word); first >= 0x0e00 && withoutSpaces(first) {
		return allFillers(word)
	}
	short := shortened(word)
	return short != word && (fillers[short] || fillers[doubled(short)])
}

func withoutSpaces(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// allFillers reports whether a run of a writing without spaces is made of fillers alone.
func allFillers(run string) bool {
	const longest = 8 * 3 // eight characters
	for run != "" {
		end := min(len(run), longest)
		for ; end > 0; end-- {
			if fillers[run[:end]] || run[:end] == "ー" || run[:end] == "〜" {
				break
			}
		}
		if end == 0 {
			return false
		}
		run = run[end:]
	}
	return true
}

// laughs reports whether a word is laughter, or a sound, as it is written: haha, jeje, хаха, kkk, hmm.
func laughs(word string) bool {
	const sounds, breath = "haeiojkwmrsuхахеиомгهاㅋㅎ哈呵嘿嘻笑ฮ", "hjkwхهㅋㅎ"
	kinds, n := [3]rune{}, 0
	count := 0
	for _, r := range word {
		if !strings.ContainsRune(sounds, r) {
			return false
		}
		count++
		known := false
		for _, k := range kinds[:n] {
			known = known || k == r
		}
		if !known {
			if n == 2 {
				return false
			}
			kinds[n] = r
			n++
		}
	}
	if n == 1 {
		return count >= 3 || kinds[0] >= 0x3000
	}
	return count >= 4 && strings.ContainsAny(word, breath)
}

// shortened is a word in which no letter stands twice in a row, as soooo is so.
func shortened(word string) string {
	var b strings.Builder
	last := rune(-1)
	for _, r := range word {
		if r != last {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// doubled is a shortened word with its last letter twice, as of coool... and welll.
func doubled(word string) string {
	_, size := utf8.DecodeLastRuneInString(word)
	return word + word[len(word)-size:]
}

// fillers are words of talk and grammar, by languages; where writing has no spaces, whole phrases too. Apostrophes part
// words. No word that names a thing, a person, a place, a time of the calendar, a feeling towards a thing, or a number.
var fillers = func() map[string]bool {
	m := make(map[string]bool)
	for word := range strings.FieldsSeq(fillerWords) {
		m[word] = true
	}
	return m
}()

const fillerWords = `
ok okay okey oki k kk okie dokie yes yeah yea yep yup ya yah aye no nope nah not na uh um umm er erm ah aha oh ooh ohh hm hmm mhm mm huh
eh wow whoa woah yay oops ouch ugh phew meh lol lmao rofl lmfao xd omg wtf idk btw brb ttyl gtg thx thanks thank ty tysm tks cheers
please pls plz sorry pardon excuse apologies hi hey hello hiya heya yo howdy greetings welcome bye goodbye byebye cya later night morning
afternoon evening day weekend week tonight tomorrow soon today now then again
i me my mine you your yours u ur he him his she her it its we us our they them their this that these those there here what whats which who
whom whose when where why how the a an and or but so if of in on at to for from with by about as up out off over down into than too very
just only also even still yet already really quite rather pretty much many more most some any all both each every bit lot lots little few
am is are was were be been being m s re ve ll d t don didn doesn isn aren wasn weren won wouldn couldn shouldn can cannot cant could will
would shall should may might must do does did doing done have has had having get got gotten gonna wanna gotta go going goes went come
coming came let lets see seen saw look looks looking know knew knows think thought thinks guess mean means meant say said saying tell told
ask asked sound sounds make makes made take takes took give gave want wanted wants wish hope try trying tried keep keeps continue proceed
stop wait hold hang moment sec second minute one once time while next last first thing things stuff something anything nothing everything
someone anyone everyone nobody way sure certainly surely indeed absolutely definitely exactly precisely totally completely entirely
perfectly perfect great good fine nice cool awesome amazing excellent wonderful fantastic brilliant lovely super sweet neat right alright
correct true fair enough well done work works worked congrats congratulations bravo happy glad welcome course problem problems prob
worry worries matter mind deal no idea question sense understood understand gotcha roger copy noted agree agreed same like love liked
loved funny hilarious interesting wonderful beautiful kidding joking joke seriously honestly actually basically literally obviously
maybe perhaps possibly probably likely never ever always sometimes anyway anyways whatever wherever however though although because cause
cuz bc help helps helpful please appreciate appreciated care luck best bless thanks ready start begin back talk chat speak hear
heard soon fun have nice dear buddy bro dude pal guys folks

ja jo jep jup jawohl nein nee ne doch gut okay klar genau stimmt richtig super toll prima klasse wunderbar perfekt schön schöne schönen
schönes danke dank dankeschön vielen bitte bitteschön gern gerne geschehen hallo moin servus tschüss tschüs tschau ciao bis später
morgen abend nacht tag wochenende guten gute guter gutes auf wiedersehen entschuldigung verzeihung sorry tut mir leid kein keine problem
macht nichts egal schon gut alles in ordnung verstanden verstehe versteh weiß weiss nicht ich du er sie es wir ihr mich dich mir dir uns
euch mein dein was wer wie wo wann warum wieso der das den dem des ein eine einen einem einer und oder aber so auch noch nur mal
eben halt denn dann da hier dort ist sind bin bist waren wäre hab habe hast haben wird werden kann kannst können könnte muss will
mach machen macht gemacht sag sagen mehr weiter warte warten moment sekunde kurz eine ach aha naja tja hm oh echt wirklich vielleicht
bestimmt natürlich selbstverständlich eigentlich einfach sehr ganz ziemlich zu von mit für auf an am im um dir geht gehts los komm
los lass uns jetzt ahnung lustig cool geil krass wow einverstanden viel viele erfolg glück spaß meinst denkst glaube glaub finde sehen sehe hören wieder
schau mal klingt interessant freut mich dir ebenso gleichfalls fertig

oui ouais non si ok d accord daccord bien sûr sur merci mercis beaucoup mille fois bonjour bonsoir salut coucou bonne bon nuit journée
soirée soir matin week end au revoir à a bientôt bientot demain plus tard tout de suite pardon désolé désolée excuse excusez moi toi lui
elle il ils elles on nous vous je j tu me te se mon ma mes ton ta tes sa ses ce c cela ça ca cet cette ces le la les l un une des du
et ou mais donc or ni que qu qui quoi quel quelle comment pourquoi où quand est es suis sommes êtes sont était ai as a avons avez ont
va vas vais allez allons aller fait faire fais faites dit dis dire peux peut pouvez veux veut voulez vois voir voyons sais sait savez
compris comprends entendu parfait génial super cool top excellent formidable magnifique chouette exact exactement tout fait vrai vraiment
peut être sans doute certainement évidemment absolument pas ne n rien grave souci soucis problème y en ah oh euh hein ben bah bof mdr ptdr
haha attends attendez attend minute instant un encore aussi très trop assez peu là ici alors voilà vas continue continuez merci stp svp s
il te plaît plait vous prie je t en de avec pour dans chance courage félicitations bravo marche ça prochaine pense crois drôle rigole

sí si no vale bueno buena buenos buenas bien claro exacto exactamente perfecto genial estupendo excelente gracias muchas mil de nada por
favor hola adiós adios chao chau hasta luego pronto mañana días dia día tardes tarde noches noche perdón perdon disculpa disculpe lo
siento siento no hay problema pasa importa entiendo entendido comprendo comprendido yo tú tu él ella ello nosotros vosotros usted ustedes
ellos ellas me te se le les nos os mi mis su sus tus este esta esto ese esa eso aquel el la los las un una unos unas y e o u pero porque
pues que qué quién quien cómo como cuándo cuando dónde donde cuál cual es soy eres somos está estoy estás están era fue ha he has
hemos han hay va voy vas vamos ver veo ves sé sabe sabes saber creo crees dime decir digo dice haz hace hacer hecho puedo puedes puede
quiero quieres más mas menos muy mucho mucha poco poca también tampoco ya ahora luego entonces aquí ahí allí así tal vez quizás quizá
acuerdo supuesto verdad cierto seguro sigue siga continúa espera espere momento segundo momentito otra otro vez todo todos nada algo ay ah
oh eh uy vaya jaja guau dios mío suerte felicidades saludos igualmente encanta gusta gustó gracioso divertido interesante listo hecho

sim não nao sério serio tá ta tá bom boa bons boas bem claro certo certeza exato exatamente perfeito ótimo otimo legal massa beleza show excelente
maravilha obrigado obrigada obrigadão brigado brigada muito muita por favor nada oi olá ola tchau adeus até ate logo mais amanhã tarde
noite dia manhã desculpa desculpe foi mal perdão sem problema problemas tudo entendi entendido compreendo percebi eu tu você voce vc ele
ela nós nos vós vocês eles elas me te se lhe meu minha teu tua seu sua este esta isto esse essa isso aquele o a os as um uma uns umas e ou
mas porque pois que quê quem como quando onde qual é sou és somos são está estou estás estão era foi há tem tenho tens vai vou vamos ver
vejo vês sei sabe sabes saber acho acha diz diga dizer faz fazer feito posso pode podes quero quer queres menos também já agora então aqui
ali aí assim talvez verdade mesmo continua continue espera espere peraí momento segundo outra outro vez todo todos algo ah oh eh ué uau
nossa kkk rsrs haha sorte parabéns igualmente gostei adorei engraçado interessante pronto valeu falou combinado de do da em no na com pra
para

sì no va bene stai sta state stanno ok okay certo certamente esatto esattamente perfetto ottimo fantastico bello bella bravo brava grande grazie mille tante
molte prego per favore piacere ciao salve buongiorno buonasera buonanotte buona buon giornata serata notte giorno arrivederci a presto
dopo domani più tardi scusa scusi scusami mi dispiace nessun problema niente nulla fa importa capito capisco ho hai ha abbiamo avete hanno
io tu lui lei noi voi loro me te se ti ci vi lo la li le gli ne mio mia tuo tua suo sua questo questa quello quella il i un una uno l e
o ma perché che chi cosa cos come quando dove quale è sono sei siamo siete era stato vado vai andiamo vedo vedi vediamo so sai credo penso
dimmi dire dico fai fare fatto posso puoi può voglio vuoi meno molto tanto poco anche pure già ora adesso allora qui lì là così forse
magari vero davvero proprio naturalmente ovviamente accordo continua aspetta aspetti momento attimo secondo un altro altra ancora tutto
tutti qualcosa ah oh eh boh mah beh dai wow haha fortuna auguri complimenti altrettanto piace divertente interessante d del della di da in
con su per non

да ага угу нет неа не ок окей ладно хорошо отлично прекрасно замечательно супер класс круто здорово понятно понял поняла ясно конечно
точно верно правильно правда спасибо спс большое огромное пожалуйста пж не за что привет приветик здравствуй здравствуйте добрый доброе
доброй утро утра день дня вечер вечера ночи ночь пока прощай до свидания встречи скорой завтра потом позже увидимся извини извините прости
простите ничего страшного проблем проблема без всё все в порядке я ты он она оно мы вы они меня тебя его её ее нас вас их мне тебе ему ей
нам вам им мой твой наш ваш это этот эта эти тот та то те что кто как где когда почему зачем какой и а но или да ли же бы вот ну так там
тут здесь сейчас уже ещё еще тоже также очень слишком много мало быть есть был была было были будет знаю знаешь думаю думаешь вижу видишь
скажи сказать говори могу можешь можно может надо хочу хочешь давай давайте пошли поехали жди подожди подождите минутку минуту секунду
секундочку момент продолжай продолжайте дальше ещё раз снова опять наверное возможно кажется действительно серьёзно серьезно ой ах ох эх
ух ого вау блин хм мм эм хаха лол удачи поздравляю молодец взаимно рад рада дела делишки согласен согласна забавно смешно интересно нравится понравилось
на с у к о об по из от для со слушай слушаю смотри ясненько договорились приятно хорошего спокойной всего доброго

نعم أجل اجل لا كلا حسنا حسناً تمام طيب أوكي اوكي جيد جيدا ممتاز رائع جميل شكرا شكراً جزيلا جزيلاً لك لكم عفوا عفواً العفو من فضلك
فضلكم رجاء مرحبا مرحباً أهلا اهلا أهلاً وسهلا وسهلاً السلام عليكم وعليكم ورحمة الله وبركاته صباح الخير مساء النور وداعا مع السلامة إلى
الى اللقاء أراك غدا غداً لاحقا قريبا تصبح تصبحين على خير آسف اسف آسفة معذرة مشكلة بأس عليك شيء فهمت مفهوم واضح بالطبع طبعا طبعاً أكيد
اكيد صحيح بالضبط فعلا حقا حقاً جدا جداً كثيرا أنا انا أنت انت هو هي نحن أنتم هم هذا هذه ذلك تلك ما ماذا من كيف أين متى لماذا هل في عن و
أو او لكن ثم إن أن إذا كان هنا هناك الآن الان أيضا ايضا فقط لحظة دقيقة انتظر ثانية مرة أخرى اخرى استمر أكمل اكمل تابع ربما يمكن ممكن
أعرف اعرف أعلم اعلم أظن اظن أرى ارى أخبرني اخبرني المزيد هههه واو يا إلهي الهي حال حالك الحال بخير والحمد الحمد لله إن شاء ماشاء مبروك
حظ سعيد أتفق اتفق معك مضحك كل يوم يومك سعيدا ليلة

tamam evet hayır yok olur peki iyi güzel harika süper teşekkürler teşekkür ederim sağol sağ ol lütfen rica merhaba selam günaydın akşamlar
geceler günler hoşça kal hoşçakal görüşürüz sonra özür dilerim pardon sorun değil anladım anlıyorum tabii tabi elbette kesinlikle doğru
aynen gerçekten belki bekle bir dakika devam et ben sen o biz siz onlar bu şu ne kim nasıl nerede neden mi mı mu mü ve ya da ama çok daha
bilmiyorum haha vay

tak nie dobrze dobra dobry dobranoc dzień wieczór super świetnie dzięki dziękuję proszę bardzo cześć hej pa do widzenia zobaczenia jutra
przepraszam nic nie szkodzi problemu rozumiem jasne oczywiście dokładnie racja naprawdę może chwilę moment ja ty on ona my wy co kto jak
gdzie kiedy to jest i a ale czy nie wiem haha

oké ja nee goed prima mooi leuk dank je wel bedankt alsjeblieft alstublieft hallo hoi dag doei tot ziens morgen later sorry geen probleem
snap begrijp natuurlijk zeker precies klopt echt misschien wacht even ga verder ik jij je hij zij wij het een wat wie hoe waar wanneer
en of maar is ben dat dit niet weet welterusten fijne

네 예 응 어 그래 그래요 아니 아니요 아니오 좋아 좋아요 좋네요 알겠어 알겠어요 알겠습니다 알았어 감사합니다 감사해요 고마워 고마워요 고맙습니다
안녕 안녕하세요 안녕히 가세요 계세요 잘자 미안 미안해 미안해요 죄송합니다 괜찮아 괜찮아요 물론 물론이죠 맞아 맞아요 정말 정말요 진짜 진짜요 대박
잠깐 잠깐만 잠깐만요 계속 계속해 계속해줘 그렇구나 그렇군요 음 아 오 와 헐 나중에 봐 봐요 내일 또 네네 수고하셨습니다 화이팅

हाँ हां जी नहीं ठीक है अच्छा बढ़िया बहुत धन्यवाद शुक्रिया कृपया नमस्ते नमस्कार अलविदा फिर मिलेंगे शुभ रात्रि प्रभात माफ़ करना कीजिए कोई
बात नहीं समझ गया गई बिल्कुल सही सच में शायद रुको एक मिनट मैं तुम आप वह हम यह क्या कौन कैसे कहाँ कब क्यों और या लेकिन

好 好的 好吧 好啊 好呀 好嘞 好哒 行 行吧 可以 可以的 没问题 沒問題 没事 沒事 没关系 沒關係 不客气 不客氣 不用谢 不用 谢谢 謝謝 谢谢你 谢谢您 多谢 多謝
感谢 感謝 非常 十分 太 真 真的 真是 你好 您好 大家好 嗨 哈喽 哈囉 喂 早 早安 早上好 上午好 中午好 下午好 晚上好 晚安 再见 再見 拜拜 回头见 回頭見 明天见
明天見 待会儿见 一会儿见 下次见 对 對 对的 对啊 對啊 对不起 對不起 抱歉 不好意思 是 是的 是啊 是吗 是嗎 不是 不 不要 不行 没 沒有 没有 嗯 嗯嗯 哦 噢 喔 啊 呀
哎 哎呀 唉 哇 哇塞 天哪 天啊 我的天 明白 明白了 知道 知道了 我知道 懂了 了解 收到 当然 當然 没错 沒錯 确实 確實 的确 同意 我 你 您 他 她 它 我们 你们 他们
我也 这 那 这个 那个 什么 甚麼 怎么 怎么样 为什么 谁 哪里 吗 嗎 呢 吧 了 的 地 得 啦 嘛 哟 也 都 就 还 還 很 再 又 一下 一点 等等 等一下 等我 稍等 请 請 请稍等 继续
繼續 接着 说 说吧 看 看看 试试 再试一次 再来一次 太好了 太棒了 真棒 很好 不错 不錯 挺好 厉害 厲害 牛 赞 棒 漂亮 完美 有意思 有趣 好笑 搞笑 笑死 笑死我了 可能 也许
或许 大概 随便 隨便 无所谓 加油 辛苦了 辛苦 恭喜 祝你好运 好运 然后 所以 但是 因为 我觉得 觉得 我想 想想 让我 让我想想 告诉我 更多 多 一个 次 好久不见 慢走 最近 你呢
我也是 一样 一樣 哈 呵 嘿 完了 没了 算了 行了 够了

はい ええ うん うんうん いいえ いや ううん ok おk 了解 了解です 了解しました りょうかい りょ 分かった 分かりました わかった わかりました 分かる わかる 承知 承知しました かしこまりました
ありがとう ありがとうございます ありがとうございました どうも どうもありがとう サンキュー どういたしまして お願い お願いします よろしく よろしくお願いします こんにちは こんばんは おはよう
おはようございます おやすみ おやすみなさい さようなら じゃあね じゃあ じゃ またね また 明日 後で あとで ごめん ごめんね ごめんなさい すみません 申し訳ありません 大丈夫 大丈夫です 問題ない
問題ありません いい いいね いいですね いいよ いいです 良い よかった よかったです 良かった すごい すごいです すごいですね 素晴らしい 素晴らしいです 最高 最高です 完璧 完璧です 面白い 面白いです
おもしろい 楽しい ウケる 本当 本当に 本当ですか ほんと ほんとに マジ まじ マジで そう そうです そうですね そうですか そうだね そうか そっか そうなんだ そうなんですね なるほど なるほどね
確かに もちろん もちろんです たぶん 多分 かも かもしれない ちょっと 少し 待って 待ってください お待ちください 少々 続けて 続けてください 次 もう 一度 もう一度 もっと 教えて 教えてください
え えー えっと あの ああ おお お わあ わ へえ へー ふーん うーん ん ね よ か です でした ます は が を に の も で から けど でも だ だよ だね 何 なに なんで どう どうして どこ いつ 誰
これ それ あれ ここ そこ 私 僕 俺 あなた 同じ 同感 賛成 草 笑 頑張って がんばって お疲れ様 お疲れ様です お疲れ様でした お疲れさま おめでとう おめでとうございます 元気 元気ですか やった
やったー いってきます いってらっしゃい ただいま おかえり さて まあ とりあえず どうぞ 全然 全部 とても すぐ 今 嬉しい 嬉しいです

ครับ ค่ะ คะ ขอบคุณ ขอบคุณครับ ขอบคุณค่ะ สวัสดี โอเค ได้ ใช่ ไม่ ไม่เป็นไร ดี ดีมาก
`
