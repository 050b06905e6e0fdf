package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.cuda.driver.NvlinkDomain;
import org.junit.jupiter.api.Test;

class NvlinkFactsTest {
  private static final NvlinkDomain FIRST = new NvlinkDomain("0c.1", "");
  private static final NvlinkDomain SECOND = new NvlinkDomain("0c.2", "");
  private static final NvlinkDomain NONE = new NvlinkDomain("", "there is no libnvidia-ml.so.1");

  @Test
  void aNodeIsAHostWithoutADomain() {
    Finding finding = NvlinkFacts.finding(List.of(NONE, NONE), true, true);
    assertThat(finding.state()).isEqualTo(Finding.State.FOUND);
    assertThat(finding.value()).isEqualTo("none");
    assertThat(finding.meaning()).isEqualTo("a node is a host: " + NONE.problem());
  }

  @Test
  void hostsOfADomainAreANode() {
    Finding finding = NvlinkFacts.finding(List.of(FIRST, FIRST), true, true);
    assertThat(finding.state()).isEqualTo(Finding.State.FOUND);
    assertThat(finding.value()).isEqualTo("0c.1: GPU 0, 1");
    assertThat(finding.meaning()).contains("its hosts are one node");
  }

  @Test
  void whatKeepsHostsApartIsAWarning() {
    Finding driver = NvlinkFacts.finding(List.of(FIRST), false, true);
    assertThat(driver.state()).isEqualTo(Finding.State.WARNING);
    assertThat(driver.meaning()).contains("a node is a host", "no fabric handles");
    Finding channel = NvlinkFacts.finding(List.of(FIRST), true, false);
    assertThat(channel.state()).isEqualTo(Finding.State.WARNING);
    assertThat(channel.meaning()).contains("a node is a host", "no IMEX channel", "nvidia-imex");
  }

  @Test
  void aHostOfSeveralDomainsIsANode() {
    assertThat(NvlinkFacts.finding(List.of(FIRST, SECOND), true, true).meaning())
        .contains("a node is a host, unless");
    assertThat(NvlinkFacts.finding(List.of(FIRST, NONE), true, true).meaning())
        .contains("a node is a host, unless", NONE.problem());
  }
}
