package org.ep4j.cases;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The bits of vectors of our own. They are pinned here, because no change may alter them; engines
 * are compared with these vectors.
 */
class SeededCaseTest {
  private static final int[] RANKS = {1, 2, 4, 5};

  @TempDir Path folder;

  @ParameterizedTest
  @CsvSource({
    "ht, BF16, 44f4eb27ccfd4d2001e3e8d7e147ddac28c8ff095f6e1e21618c38aa2320b05a",
    "ll, BF16, 44f4eb27ccfd4d2001e3e8d7e147ddac28c8ff095f6e1e21618c38aa2320b05a",
    "ht, FP16, ad37ec78aafc01ea98576ef811fb9d3a16459fab68a47b7310dba4b8e90ce1d9",
    "ht, FP32, c2727e35519a3349474c2255efcf036292814d5a8f8759334aa303a79af81a47"
  })
  void theSumsOfASeedHaveOneHashForAnyNumberOfRanks(String kind, DType dtype, String hash)
      throws Exception {
    for (int ranks : RANKS) {
      Path one = Files.createDirectory(folder.resolve(kind + ranks));

      SeededCase.write(one, 1, kind.equals("ll"), dtype, ranks);

      assertThat(hashOfSums(CaseDirectory.open(one))).as(ranks + " ranks").isEqualTo(hash);
    }
  }

  private static String hashOfSums(CaseDirectory directory) throws NoSuchAlgorithmException {
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    for (int rank = 0; rank < directory.ranks(); rank++) {
      try (CaseFile file = directory.read(rank)) {
        digest.update(file.tensor("combined_x").segment().asByteBuffer());
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }
}
