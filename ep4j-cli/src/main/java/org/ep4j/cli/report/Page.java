package org.ep4j.cli.report;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.ep4j.cli.Build;
import org.ep4j.cli.text.Json;

/**
 * A page: one file that loads nothing. Its content security policy allows the two programs in it by
 * their hashes, and nothing else: not even a text that was not escaped could run.
 */
public final class Page {
  private Page() {}

  /**
   * The text of a page.
   *
   * @param title above it, and in the title of a window
   * @param body its sections as HTML
   * @param charts those whose elements the body has
   */
  public static String of(String title, CharSequence body, Charts charts) {
    ChartLibrary library = ChartLibrary.load();
    String d3 = Html.program(library.program());
    String script = Html.program(resource("report.js"));
    return """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src \
    'unsafe-inline'; script-src @HASHES@">
    <title>@TITLE@</title>
    <style>
    @STYLE@</style>
    </head>
    <body>
    <main>
    <h1>@TITLE@</h1>
    <noscript><p class="bad">The charts need JavaScript; the tables do not.</p></noscript>
    """
            .replace("@HASHES@", Html.hash(d3) + " " + Html.hash(script))
            .replace("@TITLE@", Html.text(title))
            .replace("@STYLE@", resource("report.css"))
        + body
        + "<footer><p>Written by ep4j "
        + Html.text(Build.version() + " (" + Build.revision() + ")")
        + ". This file holds all of the page and loads nothing.</p>\n<details><summary>Charts by D3 "
        + Html.text(library.version())
        + ": its licence</summary><pre>"
        + Html.text(library.licence())
        + "</pre></details></footer>\n</main>\n<script type=\"application/json\" id=\"data\">"
        + Html.data(Json.text(charts.data()))
        + "</script>\n<script>"
        + d3
        + "</script>\n<script>"
        + script
        + "</script>\n</body>\n</html>\n";
  }

  private static String resource(String name) {
    try (InputStream in = Page.class.getResourceAsStream(name)) {
      if (in == null) {
        throw new AssertionError("the jar lacks " + name);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
