package analysis

import "strings"

// functionWords are the words of each language that texts have whatever they are about: articles, pronouns,
// prepositions, the commonest verbs, and what questions are put with. They tell the languages of one script apart, and
// queries in their language do without them. In small letters, with accents.
var functionWords = [languageCount]string{
	base: `a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with
		what when where who whom whose which how why do does did done doing have has had having been being am can could would should
		might i me my mine you your yours he him his she her hers its we our ours them from about all also any because before after
		just like more most much new now only other out over said so some than too up us very were while yes still back even here
		get got go going know think want well really one two off down`,
	German: `der die das den dem des ein eine einen einem einer eines und oder aber nicht kein keine keinen ist sind war waren bin bist
		sein seine seinen seiner hat habe haben hatte hatten wird werden wurde wurden ich du er sie es wir ihr mich mir dich dir ihn ihm
		uns euch ihnen mein meine meinen meinem meiner dein deine unser unsere ihre ihren ihrem ihrer seit von vom zu zum zur mit nach
		bei beim aus auf für über unter vor im in an am um durch gegen ohne bis wenn als wie was wer wo wann warum welche welcher
		welches welchen wem wen wohin woher womit worüber dass daß weil ob auch nur noch schon sehr immer wieder hier dort heute
		morgen gestern jeden jede kann können muss müssen will wollen soll mag möchte man sich so dann mehr viel`,
	French: `le la les l un une des du de d au aux et ou mais ne n pas plus est sont était étaient suis es sommes êtes ai as a avons avez ont
		avait avaient été être avoir je j tu il elle on nous vous ils elles me m te t se s mon ma mes ton ta tes son sa ses notre nos votre
		vos leur leurs ce c cet cette ces qui que qu quoi quel quelle quels quelles où quand comment pourquoi combien dans sur sous
		avec sans pour par en y chez vers depuis pendant entre très aussi toujours jamais bien tout tous toute toutes fait faire lui
		si quand parce puis encore chaque`,
	Spanish: `el la los las un una unos unas de del al a y e o u pero no ni es son era eran fue fueron soy eres somos está están estaba
		estar ser he has ha hemos han había yo tú él ella nosotros ellos ellas usted ustedes me te se le les nos mi mis tu tus su sus
		nuestro nuestra este esta estos estas ese esa eso lo que qué quién quiénes cuál cuáles dónde cuándo cómo cuánto cuántos por
		para con sin en sobre entre hasta desde muy más también siempre nunca cada cuando donde como porque si ya hay tiene tengo
		tienen hace hizo le quien`,
	Italian: `il lo la i gli le l un uno una di del dello della dei degli delle dell da dal dalla dai dalle a al alla allo ai agli alle all
		in nel nella nei nelle nell su sul sulla sui sulle con per tra fra e ed o ma non è sono era erano sei siamo ho hai ha abbiamo
		hanno aveva essere avere stato stata io tu lui lei noi voi loro mi ti si ci vi mio mia miei mie tuo tua suo sua suoi sue nostro
		nostra questo questa questi queste quello quella che chi cosa quale quali dove quando come perché quanto quanti molto più
		anche sempre mai ogni se già c dopo prima ne`,
	Portuguese: `o a os as um uma uns umas de do da dos das em no na nos nas ao à aos às pelo pela por para com sem e ou mas não é são era
		eram foi foram sou somos está estão estava estar ser tem têm tenho tinha há eu tu ele ela nós eles elas você vocês me te se lhe
		meu minha meus minhas teu tua seu sua seus suas nosso nossa este esta esse essa isso isto aquele aquela que quem qual quais onde
		quando como porque porquê quanto quantos muito mais também sempre nunca cada até desde sobre entre já num numa`,
	Dutch: `de het een en of maar niet geen is zijn was waren ben bent heeft heb hebben had hadden wordt worden werd ik jij je hij zij ze wij
		we jullie mij me jou hem haar ons hen hun mijn jouw uw onze dit dat deze die van voor met naar bij uit op over onder tussen aan
		in te tot om door tegen zonder als wat wie waar wanneer waarom hoe welke welk hoeveel ook nog al zeer altijd nooit weer hier
		daar vandaag morgen gisteren elke elk kan kunnen moet moeten wil willen zal mag er zich dan meer veel toen sinds`,
	Danish: `en et den det de og eller men ikke ingen er var har havde være blev bliver jeg du han hun vi i mig dig ham hende os jer dem min
		mit mine din dit dine sin sit sine hans hendes vores jeres deres som der på af til fra med for om ved efter under over mellem
		uden mod hvad hvem hvor hvornår hvorfor hvordan hvilken hvilket hvilke hvis også kun meget altid aldrig igen her nu når at kan
		kunne skal skulle vil ville må man sig så end mere hver hvert da fordi siden`,
	Norwegian: `en et ei den det de og eller men ikke ingen er var har hadde være ble blir jeg du han hun vi dere meg deg ham henne oss dem min
		mitt mine din ditt dine sin sitt sine hans hennes vår vårt våre deres som på av til fra med for om ved etter under over mellom
		uten mot hva hvem hvor når hvorfor hvordan hvilken hvilket hvilke hvis også bare veldig alltid aldri igjen her nå å at kan
		kunne skal skulle vil ville må man seg så enn mer hver hvert fordi siden`,
	Swedish: `en ett den det de och eller men inte ingen är var har hade vara blev blir jag du han hon vi ni mig dig honom henne oss er dem
		min mitt mina din ditt dina sin sitt sina hans hennes vår vårt våra deras som på av till från med för om vid efter under över
		mellan utan mot vad vem var när varför hur vilken vilket vilka vars också bara mycket alltid aldrig igen här nu att kan kunde
		ska skulle vill ville måste man sig så än mer varje då eftersom sedan i`,
	Finnish: `ja tai mutta ei en et emme ette eivät on ovat oli olivat olen olet olemme olla ollut minä sinä hän me te he minun sinun hänen
		meidän teidän heidän minua minulla minulle hänellä hänelle tämä tämän tuo se sen sitä siitä siinä ne niiden jotka joka jonka
		että jos kun kuin koska mikä mitä minkä missä mistä mihin milloin miksi miten kuka kenen kenelle ketä kuinka paljon myös vain
		hyvin aina joskus koskaan vielä jo nyt täällä kanssa ilman ennen jälkeen sitten joka`,
	Hungarian: `a az egy és vagy de nem sem van vannak volt voltak lesz lett vagyok én te ő mi ti ők engem téged őt minket nekem neked neki
		nekünk ez azt ezt ennek annak aki ami amely hogy ha mert mint mit ki kit kinek hol hova honnan mikor miért hogyan milyen melyik
		mennyi hány is csak nagyon mindig soha még már most itt ott minden után előtt alatt között nélkül szerint el meg fel le be`,
	Romanian: `un o unei unui unor și sau dar nu este e sunt era erau sunt fost fi are am ai a avem au avea eu tu el ea noi voi ei ele mă te
		se îmi îți își îi îl ne vă le lui mea mei tău ta său sa lor nostru noastră acest această acești aceste acel acea care ce cine cui
		unde când cum cât câți câte de la în pe cu din pentru despre fără până după prin între mai foarte și doar mereu niciodată
		fiecare dacă că să deja lângă al ale`,
	Turkish: `ve veya ama bir bu şu o ben sen biz siz onlar benim senin onun bizim sizin onların bana sana ona bize beni seni onu için ile
		gibi kadar sonra önce değil var yok ne kim kime kimin nerede nereye nereden nasıl neden niçin hangi kaç mi mı mu mü da de ki çok
		daha en her hiç hep şimdi bugün dün yarın olan oldu olarak olduğu zaman çünkü eğer şey`,
	Irish: `an na agus nó ach ní níl tá bhí is ba mé tú sé sí muid sibh siad mo do ár bhur ag ar as chuig de faoi go i idir le ó roimh thar
		trí um cé cad cá cathain conas fáth atá raibh beidh seo sin gach an-`,
	Polish: `i w we z ze na do od o po za przez dla bez przed nad pod u nie jest są był była było byli być mam ma masz mają miał miała ja ty
		on ona ono my wy oni one mnie mi ciebie ci go jej jego ją im ich mu nas nam was mój moja moje twój twoja swój swoją swoje nasz
		ten ta to te tego tej tym który która które że żeby jeśli gdy bo ponieważ co kto kogo komu gdzie kiedy dlaczego jak jaki jaka jakie
		ile czy też tylko bardzo zawsze nigdy już jeszcze się więc lub ale każdy każdego czym`,
	Czech: `a i v ve z ze na do od o po za přes pro bez před nad pod u s se si ne není je jsou byl byla bylo byli být jsem jsi jsme jste mám
		má máš mají měl měla já ty on ona ono my vy oni mě mi tebe ti ho jeho její jí jim jich mu nás nám vás můj moje moje tvůj svůj
		svou náš ten ta to ty toho té tím který která které že aby jestli když protože co kdo koho komu kde kdy proč jak jaký jaká jaké
		kolik zda také jen velmi vždy nikdy už ještě nebo ale každý každou`,
	Russian: `и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще нет о из ему
		когда даже ну ли если уже или ни быть был него до вас нибудь опять уж вам ведь там потом себя ничего ей может они тут где есть
		надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет кто этот того потому этого какой какая какие какое
		какую ним здесь этом один почти мой моя мое мои тем чтобы нее были куда зачем сколько всегда почему откуда кого кому эта это эти`,
	Ukrainian: `і й та в у на не що він вона воно вони я ти ми ви з із зі як а то все так його але її мені мене тобі до від за по про для без
		під над між чи же б би коли де куди звідки чому хто кого кому який яка яке які якого якій якому скільки є був була було були бути
		має мають мав мала цей ця це ці той мій моя моє мої свій свою його їх їм ще вже тільки дуже завжди ніколи або якщо бо тому`,
	Arabic: `في من على إلى الى عن مع هذا هذه ذلك تلك التي الذي الذين هو هي هم أنا انا نحن أنت انت كان كانت يكون لا لم لن ما ماذا من متى أين اين
		كيف لماذا كم أي اي هل و أو او ثم قد كل بعد قبل عند بين حتى لكن إن ان أن لأن لان ليس له لها لي لك`,
	Persian: `و در به از که این آن را با است بود شد می برای تا بر هم یا من تو او ما شما آنها خود هر چه چی کی کجا چرا چگونه چطور کدام چند چقدر
		آیا نیست دارد دارم داشت کرد کرده شده باید اگر اما ولی نه بله هیچ همه یک دو روی پس پیش چیزی`,
	Urdu: `اور میں کے کی کا کو سے نے پر ہے ہیں تھا تھی تھے ہوں یہ وہ اس ان جو کہ میرا میری میرے ہم تم آپ کیا کون کب کہاں کیوں کیسے کتنا کتنی کتنے
		کس کونسا کونسی بھی تو ہی نہیں ایک لیے ساتھ بعد پہلے گیا گئی گئے رہا رہی رہے ہو ہوا ہوئی ہوتا ہوتی اپنا اپنی اپنے مجھے اسے`,
	Hebrew: `של את על אל עם זה זו זאת הוא היא הם הן אני אתה אנחנו לא כן יש אין היה היתה הייתה היו מה מי מתי איפה איך למה מדוע כמה איזה איזו
		אילו לאן מאיפה גם רק אבל או כי אם כל לי לו לה לך לנו שלי שלו שלה שלנו מאוד עוד כבר אחרי לפני בין עד`,
	Hindi: `और में के की का को से ने पर है हैं था थी थे हूं हूँ यह वह इस उस इन उन जो कि मेरा मेरी मेरे हम तुम आप क्या कौन कब कहाँ कहां क्यों कैसे
		कितना कितनी कितने किस किसे किसके किसने कौनसा भी तो ही नहीं एक लिए साथ बाद पहले गया गई गए रहा रही रहे हो हुआ हुई होता होती होते
		अपना अपनी अपने मुझे उसे वे ये या मैं मैंने उसने उसकी उसका उसके`,
	Greek: `ο η το οι τα του της των τον την τις τους ένα ένας μια μία και ή αλλά δεν δε μη μην είναι ήταν είμαι έχω έχει έχουν είχε εγώ εσύ
		αυτός αυτή αυτό εμείς εσείς μου σου μας σας με σε στο στη στην στον στα στις στους από για προς χωρίς μετά πριν κατά που πού πότε
		πώς γιατί τι ποιος ποια ποιο ποιον ποιες ποιους πόσο πόσα πόσες πόσοι να θα αν όταν πολύ πάντα ποτέ κάθε και ότι ως`,
	Tamil: `ஒரு இந்த அந்த என்ன யார் எப்போது எங்கே எங்கு ஏன் எப்படி எந்த எத்தனை எவ்வளவு நான் நீ அவன் அவள் அவர் அது இது நாம் என் உன் அவரது
		அவருடைய எனது என்று மற்றும் ஆனால் மிகவும் உள்ளது`,
}

// alsoEnglish are function words of other languages that are English words or parts of names as well.
var alsoEnglish = wordSet(`die war bin hat mag man will so um also in an am was des den dem de la le les du on son sa se si pour par plus ton
	mes tu me a as y o e i no has he son per ha come fare sue more do da dos em os via te ma mi ti ci chi vi lo tra fa dei al all nei
	ed con sin el los las del san van der ten over of is had we die dat hem haar ons hen met bent voor toe er det en et at under for her
	here men der da man over hans min sin din var hon hade ni vid dig ham hun kun os skal vil ei en on he me te se jo ne hyvin
	a de le be fel el is mit ki van un ai are am au el ea la din cu care fi ve o sen kim var bu ben da mi mu en her hep an is go as mo do le
	idir seo sin um i po do on my to ten ty we bez pod za co jak je se si pro ale jen ho ta s v z u na st mal fin sur ni ou une
	care comment pendant sui non dove quale take made same`)

// wordVotes has the languages of each function word, as they stand in texts, by a bit of each.
var wordVotes, bareVotes = func() (exact, bare map[string]uint32) {
	exact, bare = map[string]uint32{}, map[string]uint32{}
	for l := range functionWords {
		for w := range strings.FieldsSeq(functionWords[l]) {
			exact[w] |= 1 << l
			bare[Fold(w)] |= 1 << l
		}
	}
	return exact, bare
}()

// isForeign reports whether a folded word makes it worth while to ask for the language of a text: it is a function word
// of other languages than English alone.
func isForeign(word string) bool {
	votes := bareVotes[word]
	return len(word) > 1 && votes != 0 && votes&(1<<base) == 0 && !alsoEnglish[word]
}
