// The project's own list of common English nouns for needle keys: [a-z]{3,9}, sorted, none in the other list.

#include "hydrahead/data/corpora.hpp"

namespace hydra::data {

const char* const built_in_nouns = R"(
abbey ability abode accent accident account acid acorn acre acrobat action activity actor actress adapter address
adventure advice affair afternoon agency agenda agent agreement aide air airline airport aisle alarm album alcohol
alcove alder algebra alley alliance alligator almanac almond alphabet altar altitude aluminum amateur ambition amount
amulet analyst anatomy ancestor anchor anchovy angel anger angle animal ankle answer ant antelope antenna anthem
antler anvil ape apparatus applause apple apricot apron aquarium arch archer archive area arena argument arm armada
armchair armor army aroma arrival arrow arsenal artery article artist asphalt aspirin assembly asset athlete atlas
atom attic attitude attorney auction audience aunt author autumn avalanche avenue avocado award axe axis axle baboon
baby backbone backpack bacon badge badger bagel baggage bagpipe bakery balance balcony ball ballad ballet balloon
ballot bamboo banana band bandage bandit banjo bank banker banner banquet barber bargain barge bark barley barn
barometer barrel barrier base baseball basement basin basket bass bat bath bathtub baton battery battle bay bazaar
beach beacon bead beak beam bean bear beard beast beat beauty beaver bed bedroom bee beech beef beet beetle beggar
behavior belief bell belly belt bench berry bicycle bike bill bin binder birch bird birth birthday biscuit bishop
bison blade blanket blast blaze blazer blender blimp blinker block blossom blouse blueprint boar board boat body
boiler bolt bomb bond bone bonfire bonnet bonus book bookcase boot booth border boss botany bottle bottom boulder
boundary bow bowl box boxer boy bracelet braid brain brake branch brass bread breakfast breath breeze brewery brick
bride bridge broccoli brochure broker brook broom brother brush bubble bucket buckle bud budget buffalo buffet bug
buggy builder building bulb bull bullet bumper bunch bundle bunker buoy burger burglar burrow bus bush business
butcher butler butter butterfly button buyer buzzard cabbage cabin cabinet cable cactus cafe cage cake calendar calf
camel camera camp campaign canal canary cancer candidate candle candy cane cannon canoe canopy canvas canyon cap
capital captain car caravan carbon card cardinal career cargo carnival carpenter carpet carriage carrot cart cartoon
carving case cash cashew casino cast castle cat catalog cathedral cattle cause cave cavern ceiling celery cell cellar
cello cement cemetery census center century cereal ceremony chain chair chalk chamber champion chance channel chapel
chapter charcoal chariot charity chart chauffeur check cheek cheese cheetah chemist cherry chess chest chestnut
chicken child chimney chin chipmunk chocolate choice choir chord chorus church cider cigar cinema cinnamon circle
circuit circus citizen citrus city clam clarinet class classroom claw clay cleaner clerk client cliff climate clinic
clip cloak clock closet cloth cloud clove clover clown club coach coal coast coat cobra cobweb cocoa coconut code
coffee coffin coil coin collar colleague collector college colony color column comb comedy comet comfort comic command
comment committee community companion company compass composer computer concept concert condition condor cone confetti
congress container contest contract convent cook cookie coral cord core cork corn corner corridor cosmos costume
cottage cotton couch cougar council counter country county couple courage course court cousin cover cow cowboy coyote
crab cradle craft crane crate crater crayon cream creator creature credit creek crest crew cricket crime crocodile
crop cross crow crowd crown cruiser crumb crust crystal cub cube cuckoo cucumber cuff cult culture cup cupboard
cupcake curb cure currency curry curtain curve cushion customer cycle cyclone cylinder cymbal cypress dad daffodil
dagger dairy daisy dam dance dancer danger dart data date daughter dawn day dealer death debate debt decade decision
deck deer defense degree delivery delta demand den denim dentist deposit depot deputy desert design designer desk
dessert detective device dew diagram dial dialect dialogue diamond diaper diary dictator diet diner dinghy dining
dinner dinosaur diploma diplomat dirt disaster disc discovery disease dish disk distance district ditch diver dividend
division doctor document dog doll dollar dolphin dome domino donkey donor door doorbell doorway dose double dough dove
dragon dragonfly drain drama drawer drawing dream dress dresser drill drink driver driveway drum drummer duchess duck
duel duet duke dune dungeon dusk dust duty dwarf eagle ear earring earth easel east echo eclipse economy edge edition
editor education eel effect effort egg eggplant elbow election electron elephant elevator elf elk elm embassy ember
emblem emerald emotion emperor empire employee emu encounter energy engine engineer engraving entrance envelope envoy
episode epoch equation equator era eraser errand error essay estate evening event evidence exam example exchange
exhibit exile exit expanse explorer export eye eyebrow eyelid fabric face fact factory faculty failure fairy falcon
fall fame family fan fang farm farmer farmhouse fashion father faucet fawn feast feather feature feeling fence fennel
fern ferret ferry festival fever fiber fiction fiddle field fig fight figure file film filter finance finger fire
firefly firewood fish fisherman fist flag flame flamingo flannel flask flea fleet flesh flight flock flood floor
florist flour flower fluid flute fly foal fog folder folklore food foot football footprint force forecast forehead
forest forge fork form formula fort fortress fortune forum fossil foundry fountain fox foyer fragment frame freckle
freedom freezer freight friend frog frontier frost fruit fudge fuel function fund funeral fungus funnel fur furnace
furniture gadget galaxy gale gallery gallon gambler game gander garage garbage garden gardener garlic garment garnet
gas gasoline gate gateway gazelle gear gecko gem gender gene genius genre geography geologist geometry ghost ginger
giraffe girl glacier glade gladiolus glass glasses glimmer globe glory glove glue goal goat goblet goblin goddess gold
goldfish golf gondola goose gopher gorilla gossip governor gown grain grammar granary granddad grandma granite grape
graph graphite grass gravel gravity greenery grid grill grocery groom ground group grove growth guard guardian guest
guidance guide guild guitar gulf gull gum gutter gym gymnast habit habitat hail hair haircut hall hallway halo ham
hamburger hammer hammock hamster hand handball handle hangar harbor hardware hare harmony harness harp harvest hat
hatchet hawk hay hazel head headband headline health heap heart hearth heat heather heaven hedge hedgehog heel height
heir helmet help hemlock herb herd heritage hermit hero heron highland highway hiker hill hinge hip hippo history
hobby hockey hole holiday home homework honey honor hood hoof hook horizon horn hornet horse hose hospital host hostel
hotel hour hourglass house household hub hull human humor hunger hunter hurdle hurricane hut hydrant hyena ice iceberg
icicle icon idea identity igloo iguana image impact impulse inch incident income index industry infant inflation ink
inlet inn insect inspector instinct institute insurance intellect interest interview invention investor invoice iris
iron island issue item jackal jacket jade jaguar jail jam janitor jar jasmine javelin jaw jay jazz jeans jeep jelly
jet jewel jeweler job jockey joke journal journey joy judge judgment jug juggler juice jumper jungle jury justice kale
kangaroo kayak kennel kernel kettle keyboard keyhole kidney kimono king kingdom kiosk kiss kitchen kite kitten kiwi
knee knife knight knitting knob knock knot knowledge koala label labor lace lad ladder ladle lady ladybug lagoon lake
lamb lamp lance land landlord landmark landscape lane language lantern lap laptop larch lard lark laser lasso latch
laughter laundry laurel lava lavender law lawn lawyer layer lead leader leaf league leash lecture leek legend legume
lemon lemonade lemur length lens leopard lesson letter lettuce lever library license lid life lifeboat lifeguard lilac
lily lime limestone limit limousine line linen liner lion lip list liter litter liver lizard llama load loaf loan
lobby lobster location lock locker locket locust lodge loft log logic lollipop loop lord lotion lottery lotus lounge
love lumber lunch lung lute luxury lynx lyric macaroni machine magazine magic magician magnet magnolia magpie maid
mailbox majority maker mall mallet mammal manager mandolin mango manor mansion mantle map maple maracas marathon
marble march margin market marlin marsh martin mascot mask mason mast master mat match material math matter mattress
mayor maze meadow meal measure meat mechanic medal media medicine meeting melody melon member memo memory menu
merchant mermaid message metal meteor meter method metro midnight milk mill miller mimosa mind mine mineral minister
mink mint minute miracle mirror mischief missile mission mist mistake mitten mixer mixture moat model mole moment
monarch money mongoose monitor monk monkey monsoon monster month monument mood moon moose mop morning mortgage mosaic
mosque mosquito moss motel moth mother motion motor mountain mouse mouth movement movie mud muffin mug mule muscle
museum mushroom music musician mustache mustard mystery myth nail name nap napkin nation nature navy neck necklace
nectar needle neighbor nephew nerve nest net nettle network newspaper newt nickel niece night noise noodle noon north
nose note notebook notion nougat nozzle nurse nursery nut nutmeg nylon oak oar oasis oat object oboe observer ocean
octave octopus odor offer office officer oil ointment olive omelet onion onyx opal opera operator opinion orchard
orchestra orchid order ore oregano organ organism origami origin ornament ostrich otter ounce outcome outfit outlaw
output oven owl owner oxygen oyster pace pack package pad paddle page pail pain paint painter painting pair pajamas
palace palm pan pancake panda panel panic pansy panther pants papaya paper parachute parade paradise paragraph parcel
parent parfait park parking parlor parrot parsley parsnip part partner party passage passenger passion passport pasta
paste pastry pasture patch path patio patrol pattern pavement pavilion paw payment pea peace peach peacock peak peanut
pear pearl pebble pecan pedal peel pelican pen penalty pencil pendant penguin penny people pepper perfume period
permit person petal petunia phantom pharmacy pheasant phone photo phrase physics piano pickle picnic picture pie piece
pier pig pigeon pile pilgrim pillar pillow pilot pin pine pineapple pinecone pint pioneer pipe pirate pistachio pit
pitcher pizza place plane planet plank planner plant plate plateau platform platinum platypus play player plaza plot
plow plum plumber plywood pocket podium poem poet poetry point poison poker pole police policy polish politics pollen
pond pony pool popcorn poppy porch porcupine pork port porter portion portrait postcard poster pot potato potter
pottery pouch pound powder power prairie prayer preface presence president press price priest prince princess printer
prison prisoner privilege problem process produce product professor profile profit program project promise proof
property prophet proposal protein protest proverb prune pub pudding puddle pulley pulse puma pump pumpkin pupil puppet
puppy purchase purse puzzle pyramid python quail quality quarrel quarry quart quartz queen quest question quiche quill
quilt quiver quiz quota quote rabbi rabbit raccoon race racer rack radar radiator radio radish raft rag rail railing
railway rain rainbow raincoat rake rally ramp ranch ranger rank rat rattle raven ravine ray razor reactor reader
reason receipt recipe record recorder reed reef referee reform refuge region rein reindeer relation relative relay
relic religion remedy rent repair report reptile republic research reserve reservoir resident resource response rest
result retailer retreat reunion revenue review reward rhubarb rhyme rhythm rib ribbon rice riddle rider ridge rifle
ring rink riot river road roast robe robin robot rock rocket rod rodent role roof room rooster root rope rose rosemary
roster rotor route rover rowboat rubber ruby rudder rug ruin ruler rumor runner runway sack saddle safari sail
sailboat sailor saint salad salary sale salmon salon salt sample sand sandal sandwich sapphire sardine satellite satin
sauce saucer sausage saw saxophone scale scallop scandal scar scarecrow scarf scene scent schedule scholar school
schooner science scientist scissors scooter score scorpion scout screen screw script sculptor sea seafood seagull seal
search season seat seaweed secretary section sector seed segment seminar senate senator sensor sentence sequence
sergeant series servant server service session settler shade shadow shampoo shape shark shawl shed sheep sheet shelf
shell shelter sheriff shield shin ship shirt shock shoe shop shore shoulder shovel show shower shrimp shrub shuttle
sibling sidewalk siege sign signal signature silence silk sink siren sister site skate skeleton sketch ski skier skill
skillet skin skirt skunk sky skylight slate sled sleep sleeve sleigh slice slide slipper slogan slope sloth slug smile
smith smoke smoothie snack snail snake sneaker snow snowball snowflake snowman soap soccer society sock soda sofa
software soil soldier solution son sonata song sorbet sorrow soul sound soup source south souvenir soybean spade
spaghetti spaniel spark sparrow spatula speaker spear spectrum speech speed spell sphere sphinx spice spider spike
spinach spine spiral spirit sponge spoon sport spot spray spring sprout spruce spy squad squash squid squirrel stadium
staff stage stair stallion stamp star starfish start statement station statue steak steam stem step stereo stew
steward stick stirrup stitch stock stocking stomach stone stool store stork storm story stove stranger strap straw
stream street stretcher string structure student studio study style subject suburb subway success sugar suit suitcase
sulfur sultan summer summit sun sunflower sunrise sunset supper supply support surf surface surfer surgeon surgery
surname surprise survey suspect swallow swamp swan swarm sweater swimmer swing sword syllable symbol symphony symptom
syrup system table tablet tackle tadpole tail tailor talent tangerine tank tape tapestry tapir target tariff task
taste tavern tax taxi tea teacher team teapot teaspoon telegram telephone telescope temper temple tempo tenant tennis
tent term termite terrace terrain territory test text textbook texture theater theme theory thermos thicket thief
thigh thimble thing thistle thorn thought thread throat throne thumb thunder ticket tide tie tiger tile timber time
tin tip tire tissue title toad toast toaster tobacco toe toffee tomato ton tongue tool tooth topaz topic torch tornado
tortoise toucan touch tour tourist towel tower town toy track tractor trade tradition traffic trail trailer train
trainer trait tram transport trap travel traveler tray treasure treaty tree trellis trend trial triangle tribe tribute
tricycle trio trip tripod trombone trophy trouble trousers trout trowel truck trumpet trunk truth tub tuba tube
tugboat tulip tuna tundra tunnel turban turbine turkey turnip turret turtle tutor tuxedo tweed twig tycoon typhoon
typist umbrella umpire uncle union unit universe uproar urchin urn user utensil vacation vaccine vacuum valley value
valve van vanilla vapor vase vault vegetable vehicle veil vein velvet vendor venture veranda verdict verse vessel vest
veteran viaduct victory video view village villain vine vinegar vineyard viola violin viper virtue virus vision
visitor vitamin voice volcano volume volunteer vote voter vowel voyage vulture wader wafer waffle wage wagon waist
waiter wall wallaby wallet walnut walrus waltz wand wardrobe warehouse warrior wasp watch water waterfall wave wax
wealth weapon weasel weather weaver wedding wedge weed week weekend weight wharf wheat wheel whiskey whisper whistle
widow width wife willow winch wind windmill window wine wing winner winter wire wisdom witness wizard wolf woman
wombat wonder wood wool word work worker workshop world worm wreath wrench wrestler wrist writer yacht yak yam yard
yarn year yeast yodel yogurt yolk youth zebra zephyr zeppelin zinc zipper zodiac zone zoo
)";

}  // namespace hydra::data
