"""Pages as they are on the web, at any hour of a day: a clock, a counter, teasers, prices.

Each page also has news at noon, which must make a post in any case.
"""

from headwater.demo.demo_web import Reply, Request

STORY = (
    "The river rose during the night, and by the morning the meadows on both banks were under "
    "water. The fire brigade has closed the lower road and asks everybody to stay away from the "
    "dams until the afternoon. School starts an hour later. "
)
MORE = (
    "Volunteers are filling sandbags behind the town hall. Whoever wants to help brings a shovel, "
    "boots and something warm to drink, and reports to the woman with the yellow hat."
)
NEWS = "At noon the water began to fall."
HEADLINES = (
    "Council votes on the new bridge", "Ferry sails again from Monday", "Choir looks for a tenor",
    "Old mill becomes a museum", "Library opens on Sundays", "Market moves to the station",
    "Cyclists ask for a lane", "Bakery wins a prize", "Tram line closed for repairs",
)  # fmt: skip


class PageOfDay:
    """A page that depends on the hour, which a test sets."""

    def __init__(self, name: str) -> None:
        self.name, self.hour = name, 0

    def __call__(self, _: Request) -> Reply:
        return Reply(200, self.html().encode(), "text/html")

    def html(self) -> str:
        """The page at this hour."""
        news = f"<p>{NEWS}</p>" if self.hour >= 12 else ""
        return f"""<!doctype html><html><head><title>River Gazette: {self.name}</title></head><body>
<header class="masthead"><p>River Gazette</p><nav><a href="/">Home</a> <a href="/news">News</a>
<a href="/sport">Sport</a></nav></header>
<article><h1>The river is rising</h1><p>{STORY}</p>{news}{self._part()}<p>{MORE}</p></article>
<footer><p>Imprint · Privacy</p></footer></body></html>"""

    def _part(self) -> str:
        hour = self.hour
        if self.name == "clock":
            return f"<p class='clock'>It is now {hour:02}:00 in the valley.</p>"
        if self.name == "counter":
            return f"<p>{4711 + 37 * hour} people have read this page.</p>"
        if self.name == "teasers":
            shown = (HEADLINES[(hour + n) % len(HEADLINES)] for n in range(4))
            items = "".join(f"<li>{one}, as we reported in detail yesterday.</li>" for one in shown)
            return f"<div class='teasers'><ul>{items}</ul></div>"
        price = 1.20 + hour // 6 / 10  # at 6, 12 and 18 o'clock
        return (
            "<section class='shop'><p>The shop in the village is open, and these are the prices "
            f"of {hour:02}:00, without any guarantee.</p><table id='prices'><tr><td>Milk, a litre"
            f"</td><td>{price:.2f} €</td></tr><tr><td>Tea</td><td>2.40 €</td></tr></table>"
            "</section>"
        )
