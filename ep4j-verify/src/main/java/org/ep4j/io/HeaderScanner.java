package org.ep4j.io;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * The JSON tokens of a safetensors header. The caller requests the expected next token, so there is
 * no recursion and no tree: input of any depth is rejected at its first wrong character.
 */
final class HeaderScanner {
  /** A character that no valid header has at this position. */
  static final class Malformed extends Exception {
    private static final long serialVersionUID = 1L;

    Malformed(String problem) {
      super(problem, null, false, false);
    }
  }

  private static final int END = -1;

  private final CharBuffer text;
  private int at;

  HeaderScanner(ByteBuffer utf8) throws Malformed {
    try {
      text = StandardCharsets.UTF_8.newDecoder().decode(utf8);
    } catch (CharacterCodingException e) {
      throw new Malformed("the header is not valid UTF-8");
    }
  }

  /** Consumes {@code expected}, after white space. */
  void expect(char expected) throws Malformed {
    if (!take(expected)) {
      throw unexpected("'" + expected + "'");
    }
  }

  /** Consumes {@code wanted}, after white space, if it is next. */
  boolean take(char wanted) {
    skipSpace();
    if (peek() != wanted) {
      return false;
    }
    at++;
    return true;
  }

  /** Checks that only white space is left. */
  void expectEnd() throws Malformed {
    skipSpace();
    if (peek() != END) {
      throw unexpected("the end of the header");
    }
  }

  /** A string. */
  String string() throws Malformed {
    skipSpace();
    if (peek() != '"') {
      throw unexpected("a string");
    }
    at++;
    StringBuilder value = new StringBuilder();
    while (true) {
      int c = peek();
      if (c == END || c < 0x20) {
        throw unexpected("a character of a string or '\"'");
      }
      at++;
      if (c == '"') {
        return wellFormed(value);
      }
      value.append(c == '\\' ? escaped() : (char) c);
    }
  }

  private char escaped() throws Malformed {
    int c = peek();
    at++;
    return switch (c) {
      case '"', '\\', '/' -> (char) c;
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'n' -> '\n';
      case 'r' -> '\r';
      case 't' -> '\t';
      case 'u' -> hex4();
      default -> {
        at--;
        throw unexpected("an escape character");
      }
    };
  }

  private char hex4() throws Malformed {
    int value = 0;
    for (int i = 0; i < 4; i++) {
      int c = peek();
      int digit = c < 128 ? Character.digit(c, 16) : -1;
      if (digit < 0) {
        throw unexpected("a hexadecimal digit");
      }
      value = value << 4 | digit;
      at++;
    }
    return (char) value;
  }

  private String wellFormed(StringBuilder value) throws Malformed {
    for (int i = 0; i < value.length(); i++) {
      if (Character.isHighSurrogate(value.charAt(i))
          && i + 1 < value.length()
          && Character.isLowSurrogate(value.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(value.charAt(i))) {
        throw new Malformed("a string that ends at character " + at + " holds half a surrogate");
      }
    }
    return value.toString();
  }

  /** A natural number that fits a long. */
  long natural() throws Malformed {
    skipSpace();
    int start = at;
    long value = 0;
    while (peek() >= '0' && peek() <= '9') {
      int digit = peek() - '0';
      if (value > (Long.MAX_VALUE - digit) / 10) {
        throw new Malformed("the number at character " + start + " exceeds 2^63 - 1");
      }
      value = value * 10 + digit;
      at++;
    }
    boolean leadingZero = at - start > 1 && text.get(start) == '0';
    int next = peek();
    if (at == start || leadingZero || next == '.' || next == 'e' || next == 'E') {
      at = start;
      throw unexpected("a natural number without sign, fraction, exponent or leading zero");
    }
    return value;
  }

  private void skipSpace() {
    int c = peek();
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      at++;
      c = peek();
    }
  }

  private int peek() {
    return at < text.length() ? text.get(at) : END;
  }

  private Malformed unexpected(String wanted) {
    int c = peek();
    String found =
        c == END
            ? "the end of the header"
            : c < 0x20 || c > 0x7e ? "U+%04X".formatted(c) : "'" + (char) c + "'";
    return new Malformed("expected " + wanted + " at character " + at + ", found " + found);
  }
}
