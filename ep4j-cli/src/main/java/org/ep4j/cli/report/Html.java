package org.ep4j.cli.report;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;

/** Text and data inside HTML. Names of machines and files are hostile until escaped. */
final class Html {
  private Html() {}

  /** The text for an element or a quoted attribute. */
  static String text(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;")
        .replace("'", "&#39;");
  }

  /**
   * JSON text for a script element: without the characters that could end the element or begin a
   * comment. They occur in strings of JSON only, where an escape means the same.
   */
  static String data(String json) {
    return json.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029");
  }

  /** A program for a script element. */
  static String program(String program) {
    if (program.contains("</script") || program.contains("<!--")) {
      throw new IllegalArgumentException("the program cannot stand in a script element");
    }
    return program;
  }

  /** The source expression of a content security policy that allows exactly this program. */
  static String hash(String program) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(program.getBytes(StandardCharsets.UTF_8));
      return "'sha256-" + Base64.getEncoder().encodeToString(digest) + "'";
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError(e);
    }
  }
}
