/** Mixtral of Jlama with its experts spread over the ranks of a group. */
module org.ep4j.jlama {
  requires transitive org.ep4j;
  requires transitive jlama.core;
  requires com.fasterxml.jackson.databind;
  requires static transitive langchain4j.core;
  requires static org.jspecify;

  exports org.ep4j.jlama;
}
