package org.ep4j.bench;

import org.ep4j.config.Layout;
import org.ep4j.verify.WorldRouting;

/**
 * The row copies of a dispatch without communication: each row of a rank is copied to the next free
 * place of each of its destinations.
 *
 * @param source row to copy
 * @param target place to copy it to
 */
public record RowCopies(int[] source, int[] target) {
  /** The copies of {@code rank}: a destination is a rank (FLAT) or an expert (EXPERT_MAJOR). */
  public static RowCopies of(WorldRouting world, int rank, Layout layout) {
    int parts = layout == Layout.FLAT ? world.ranks() : world.placement().experts();
    int[] next = new int[parts + 1];
    boolean[][] goes = new boolean[world.tokens(rank)][parts];
    for (int token = 0; token < goes.length; token++) {
      for (int k = 0; k < world.topK(); k++) {
        int expert = world.expert(rank, token, k);
        if (expert >= 0) {
          goes[token][layout == Layout.FLAT ? world.placement().rankOf(expert) : expert] = true;
        }
      }
      for (int part = 0; part < parts; part++) {
        next[part + 1] += goes[token][part] ? 1 : 0;
      }
    }
    for (int part = 0; part < parts; part++) {
      next[part + 1] += next[part];
    }
    int[] source = new int[next[parts]];
    int[] target = new int[source.length];
    int copy = 0;
    for (int token = 0; token < goes.length; token++) {
      for (int part = 0; part < parts; part++) {
        if (goes[token][part]) {
          source[copy] = token;
          target[copy++] = next[part]++;
        }
      }
    }
    return new RowCopies(source, target);
  }

  /** Number of copies. */
  public int count() {
    return source.length;
  }
}
