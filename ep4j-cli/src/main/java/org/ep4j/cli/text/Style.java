package org.ep4j.cli.text;

/**
 * Colours of a stream. Off unless the stream is a terminal; {@code NO_COLOR} turns them off, {@code
 * CLICOLOR_FORCE} on (a parent that relays our output to a terminal sets it).
 */
public enum Style {
  /** No escape sequences. */
  PLAIN,
  /** ANSI escape sequences. */
  COLOURED;

  /** Colours of ranks, in turn. */
  private static final int[] RANK_COLOURS = {36, 33, 35, 32, 34, 31};

  /** Variable that forces colours. */
  public static final String FORCE = "CLICOLOR_FORCE";

  /** What suits this process's standard output. */
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

  /** Text of less importance. */
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
