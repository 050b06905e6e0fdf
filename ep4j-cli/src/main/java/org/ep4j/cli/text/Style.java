package org.ep4j.cli.text;

/**
 * Colours of a stream, off unless the stream is a terminal. {@code NO_COLOR} disables them; {@code
 * CLICOLOR_FORCE}, set by a parent that relays the output to a terminal, enables them.
 */
public enum Style {
  /** No escape sequences. */
  PLAIN,
  /** ANSI escape sequences. */
  COLOURED;

  /** Colours of ranks, in rotation. */
  private static final int[] RANK_COLOURS = {36, 33, 35, 32, 34, 31};

  /** Variable that forces colours. */
  public static final String FORCE = "CLICOLOR_FORCE";

  /** The style for the standard output of this process. */
  public static Style detect() {
    String refused = System.getenv("NO_COLOR");
    if (refused != null && !refused.isEmpty()) {
      return PLAIN;
    }
    String forced = System.getenv(FORCE);
    if (forced != null && !forced.isEmpty() && !forced.equals("0")) {
      return COLOURED;
    }
    return Terminal.standardOutput() && !"dumb".equals(System.getenv("TERM")) ? COLOURED : PLAIN;
  }

  /** Bold text. */
  public String bold(String text) {
    return wrap("1", text);
  }

  /** Text of a success. */
  public String good(String text) {
    return wrap("32", text);
  }

  /** Text of a warning. */
  public String warning(String text) {
    return wrap("33", text);
  }

  /** Text of an error. */
  public String bad(String text) {
    return wrap("31", text);
  }

  /** Less important text. */
  public String faint(String text) {
    return wrap("2", text);
  }

  /** Text in the colour of a rank. */
  public String ofRank(int rank, String text) {
    return wrap(String.valueOf(RANK_COLOURS[rank % RANK_COLOURS.length]), text);
  }

  private String wrap(String code, String text) {
    return this == PLAIN ? text : "\u001b[" + code + "m" + text + "\u001b[0m";
  }
}
